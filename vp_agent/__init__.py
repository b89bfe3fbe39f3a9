# SPDX-License-Identifier: Apache-2.0
"""The agent of one compute host. Start reading at `loop/tick.py`."""

from oslo_service import backend

# oslo.messaging asks for a backend when it is imported, and would be given eventlet.
backend.register_backend_default_hook(lambda: backend.BackendType.THREADING)
