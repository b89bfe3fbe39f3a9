# SPDX-License-Identifier: Apache-2.0
"""Horizon with its static files, which gunicorn does not serve. Runs in `.venv-dashboard`."""

import os

from django.core.wsgi import get_wsgi_application
from whitenoise import WhiteNoise

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "openstack_dashboard.settings")
application = WhiteNoise(
    get_wsgi_application(), root=os.environ["HORIZON_STATIC_ROOT"], prefix="static/"
)
