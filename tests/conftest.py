# SPDX-License-Identifier: Apache-2.0
"""What must come before any test imports anything: threads, as in all our processes.

oslo.service takes eventlet by default, once for the process, as soon as oslo.messaging is imported.
"""

import warnings

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # Its threading backend looks for eventlet, which warns.
    from oslo_service import backend

    backend.init_backend(backend.BackendType.THREADING)
