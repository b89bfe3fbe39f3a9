# SPDX-License-Identifier: Apache-2.0
"""One server: what is known of it now, and its history drawn. For operators and tenants: vp-api
gives each what it may see."""

import contextlib
from datetime import UTC, datetime, timedelta
from typing import Any

from nova_vp import timestamps
from vp_client import formatters
from vp_client.client import Client
from vp_dashboard import timeline

LAST_ACTIONS = 50
FIRST_HOURS = 1


def read(client: Client, server_id: str, asked: dict[str, str]) -> dict[str, Any]:
    """The context of a page. Three requests. `asked`: `hours`, and `end` of the time to show; what
    is neither is as if it were absent. Horizon shows `actions` of a context above the page."""
    hours = _hours(asked.get("hours", ""))
    every = timeline.SPANS[hours]
    span = _span(hours, _end(asked.get("end", "")))
    vp = client.show_vp(server_id)
    history = client.vp_history(server_id, None, every=str(every), **span)
    actions = client.vp_actions(server_id, LAST_ACTIONS)
    marks = [(one["at"], _what(one)) for one in actions if one["at"]]
    return {
        "vp": vp,
        "history": history,
        "done": actions,
        "chart": timeline.chart(history, marks, every),
        "hours": hours,
        "spans": list(timeline.SPANS),
        "earlier": history[0]["at"] if history else None,
        "is_operator": "host" in vp,
    }


def _hours(text: str) -> int:
    return int(text) if text.isdecimal() and int(text) in timeline.SPANS else FIRST_HOURS


def _end(text: str) -> str | None:
    with contextlib.suppress(ValueError):
        return timestamps.write(timestamps.read(text))
    return None


def _span(hours: int, end: str | None) -> dict[str, str]:
    """The last hour is vp-api's own default: no clock but its own is asked."""
    if end is None and hours == FIRST_HOURS:
        return {}
    last = timestamps.read(end) if end else datetime.now(UTC)
    begin = last - timedelta(hours=hours)
    return {"begin": timestamps.write(begin), "end": timestamps.write(last)}


def _what(action: dict[str, Any]) -> str:
    return str(action["what"]) if "what" in action else formatters.deed(action)
