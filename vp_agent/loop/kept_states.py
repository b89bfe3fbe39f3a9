# SPDX-License-Identifier: Apache-2.0
"""What controllers keep for the next run of the agent, as text and back.

Each says for itself what that is (`Controller.kept`). What cannot be read, or belongs to another
version, is as if it had never been.
"""

import json
import logging
from collections.abc import Mapping
from typing import Any

from nova_vp import controllers
from nova_vp.printable import fault
from nova_vp.recording.codec import Malformed, record_of

LOG = logging.getLogger(__name__)
_FAULTS = (Malformed, ValueError, TypeError, AttributeError, RecursionError)


def text_of(states: Mapping[str, Any]) -> str:
    """`states`: what controllers remember, by name."""
    rows = {}
    for name, one in controllers.installed().items():
        kept = one.kept(states[name]) if name in states else None
        if kept is not None:
            rows[name] = record_of(one.state).encode(kept)
    return json.dumps(rows)


def states_of(text: str | None) -> dict[str, Any]:
    """By name, of those that are installed."""
    if text is None:
        return {}
    try:
        rows = json.loads(text)
        return {
            name: record_of(one.state).decode(rows[name])
            for name, one in controllers.installed().items()
            if name in rows
        }
    except _FAULTS as exc:
        LOG.warning("controllers.json is not readable (%s): controllers begin anew", fault(exc))
        return {}
