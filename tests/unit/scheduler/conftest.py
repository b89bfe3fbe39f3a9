# SPDX-License-Identifier: Apache-2.0
"""Nova is imported here first: it warns about itself, and warnings are errors in our tests."""

import warnings

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import nova.objects
    import nova.scheduler.host_manager
    import nova.scheduler.weights.ram

    nova.objects.register_all()
