# SPDX-License-Identifier: Apache-2.0
# Horizon runs this text within its own settings, whose names it has.
from pathlib import Path

import vp_dashboard

_VP_CONF = Path(vp_dashboard.__file__).parent / "conf"

POLICY_FILES["performance-isolation"] = str(_VP_CONF / "vp_policy.yaml")  # noqa: F821
DEFAULT_POLICY_FILES["performance-isolation"] = str(  # noqa: F821
    _VP_CONF / "default_policies/vp.yaml"
)
