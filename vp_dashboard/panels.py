# SPDX-License-Identifier: Apache-2.0
"""What all panels share: without vp-api in the catalog there is none."""

from typing import Any, ClassVar

import horizon

from vp_dashboard import api


class VpPanel(horizon.Panel):
    permissions: ClassVar[Any] = (api.PERMISSION,)
