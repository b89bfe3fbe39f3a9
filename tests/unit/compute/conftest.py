# SPDX-License-Identifier: Apache-2.0
"""Nova is imported here first: it warns about itself, and warnings are errors in our tests."""

import warnings

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import nova.api.validation.extra_specs.validators
    import nova.compute.resource_tracker
    import nova.objects

    nova.objects.register_all()
