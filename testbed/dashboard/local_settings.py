# SPDX-License-Identifier: Apache-2.0
"""Horizon's local settings. The environment says which keystone, and where files may be written."""

import os

DEBUG = False
ADDRESS = os.environ.get("HORIZON_ADDRESS", "127.0.0.1")
ALLOWED_HOSTS = [ADDRESS, "127.0.0.1", "localhost"]  # Through a tunnel it has another name.
WEBROOT = "/"
COMPRESS_OFFLINE = True
SECRET_KEY = os.urandom(32).hex()  # Logins end with the process.
STATIC_ROOT = os.environ["HORIZON_STATIC_ROOT"]
OPENSTACK_KEYSTONE_URL = os.environ.get("HORIZON_KEYSTONE_URL", "http://127.0.0.1:5000/v3")
VP_API_TIMEOUT_S = float(os.environ.get("HORIZON_VP_API_TIMEOUT_S", "30"))
SESSION_ENGINE = "django.contrib.sessions.backends.signed_cookies"
CACHES = {"default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}}
TIME_ZONE = "UTC"
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "handlers": {"console": {"class": "logging.StreamHandler"}},
    "root": {"handlers": ["console"], "level": "WARNING"},
}
