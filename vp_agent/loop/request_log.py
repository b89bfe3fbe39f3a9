# SPDX-License-Identifier: Apache-2.0
"""One line for each order to this host: on whose request, and about what.

`request` is the id that vp-api gave, also in its own log, or `local` for the control socket. What
came from outside is cut and stripped of what a log must not hold.
"""

import logging
import re
from collections.abc import Mapping
from typing import Any

LOG = logging.getLogger(__name__)
LOCAL = "local"
_REQUEST_ID = re.compile(r"req-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_LONGEST = 100


def request_of(context: Any) -> str:
    """Of what came with a message; `-` where nothing did that could be one."""
    given = context.get("request_id") if isinstance(context, Mapping) else None
    return given if isinstance(given, str) and _REQUEST_ID.fullmatch(given) else "-"


def note(request: str, order: str, **about: object) -> None:
    told = "".join(f" {name}={_one_word(str(value))}" for name, value in about.items())
    LOG.info("request=%s order=%s%s", request, order, told)


def _one_word(text: str) -> str:
    return printable(text, _LONGEST).replace(" ", "?") or "-"


def printable(text: str, most: int) -> str:
    """Of what came from outside, what may stand in a log."""
    return re.sub(r"[^ -~]", "?", text[:most])
