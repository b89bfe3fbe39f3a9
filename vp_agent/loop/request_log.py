# SPDX-License-Identifier: Apache-2.0
"""One line for each order to this host: on whose request, and about what.

`request` is the id that vp-api gave, also in its own log, or `local` for the control socket. What
came from outside is cut and stripped of what a log must not hold.
"""

import logging
import re

from nova_vp.printable import printable
from nova_vp.signing.envelope import Call

LOG = logging.getLogger(__name__)
LOCAL = "local"
_REQUEST_ID = re.compile(r"req-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_LONGEST = 100


def request_of(call: Call) -> str:
    """Of a call that came over the bus; `-` where it has none that could be one."""
    return call.request_id if _REQUEST_ID.fullmatch(call.request_id) else "-"


def note(request: str, order: str, **about: object) -> None:
    told = "".join(f" {name}={_one_word(str(value))}" for name, value in about.items())
    LOG.info("request=%s order=%s%s", request, order, told)


def _one_word(text: str) -> str:
    return printable(text, _LONGEST).replace(" ", "?") or "-"
