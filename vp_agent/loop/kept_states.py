# SPDX-License-Identifier: Apache-2.0
"""What controllers keep for the next run of the agent, as text and back.

Each says for itself what that is (`Controller.kept`).
"""

import json
from collections.abc import Mapping
from typing import Any

from nova_vp import controllers
from nova_vp.recording.codec import record_of


def as_text(states: Mapping[str, Any]) -> str:
    """`states`: what controllers remember, by name."""
    rows = {}
    for name, one in controllers.installed().items():
        kept = one.kept(states[name]) if name in states else None
        if kept is not None:
            rows[name] = record_of(one.state).encode(kept)
    return json.dumps(rows)


def from_text(text: str) -> dict[str, Any]:
    """By name, of those that are installed. Raises what decoding raises where it is not what
    `as_text` of this version wrote."""
    rows = json.loads(text)
    return {
        name: record_of(one.state).decode(rows[name])
        for name, one in controllers.installed().items()
        if name in rows
    }
