# SPDX-License-Identifier: Apache-2.0
"""What the running agent makes of a line in which somebody overrides something of one server.

It comes over the control socket from `cli.override`, or from whoever may write there.
"""

import json
from typing import Any

from nova_vp import wire
from nova_vp.core.types.policy import Mode
from nova_vp.wire.validation import Schema, SchemaError
from vp_agent.commands import CannotOverride
from vp_agent.loop.overrides import ServerOverrides

_LINE = Schema(
    {
        "type": "object",
        "properties": {
            "server": {"type": "string", "maxLength": 255},
            "mode": {"enum": [*(mode.value for mode in Mode), None]},
            "opt_out": {"type": "boolean"},
            "exempt": {"type": "boolean"},
            "priority": {
                "type": ["integer", "null"],
                "minimum": 0,
                "maximum": wire.MAX_PRIORITY,
            },
        },
        "additionalProperties": False,
    }
)


def carry_out(overrides: ServerOverrides, value: str) -> list[dict[str, Any]]:
    """In the agent: does what the line says. Returns the overrides that hold then. Raises
    CannotOverride and OSError."""
    try:
        line = json.loads(value)
        _LINE.check(line)
    except (ValueError, RecursionError, SchemaError) as exc:
        raise CannotOverride(
            f"not a valid override: {str(exc)[:200]}; see `vp-agent override --help`"
        ) from exc
    server = line.pop("server", "")
    if line:
        mode = line.get("mode")
        overrides.override(server, line | ({"mode": Mode(mode)} if mode else {}))
    return [row for row in overrides.rows() if server in ("", row["name"], row["uuid"])]
