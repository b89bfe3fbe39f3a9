# SPDX-License-Identifier: Apache-2.0
"""What must come before any test imports anything: threads, as in all our processes.

oslo.service takes eventlet by default, once for the process, as soon as oslo.messaging is imported.
"""

import os
import warnings

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # Its threading backend looks for eventlet, which warns.
    if os.environ.get("OS_NOVA_DISABLE_EVENTLET_PATCHING") == "0":
        # Asked for by tools/test-nova-releases alone, as older schedulers of Nova run.
        from nova import monkey_patch

        monkey_patch.patch()
    else:
        from oslo_service import backend

        backend.init_backend(backend.BackendType.THREADING)
