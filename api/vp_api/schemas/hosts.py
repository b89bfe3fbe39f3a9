# SPDX-License-Identifier: Apache-2.0
"""Bodies and queries of /v1/hosts."""

from nova_vp.core.model import Mode

NO_QUERY = {"type": "object", "additionalProperties": False}

CHANGE = {
    "type": "object",
    "properties": {"mode": {"enum": [mode.value for mode in Mode]}},
    "required": ["mode"],
    "additionalProperties": False,
}

ACCEPT = {
    "type": "object",
    "properties": {"accepted": {"const": True}},
    "required": ["accepted"],
    "additionalProperties": False,
}
