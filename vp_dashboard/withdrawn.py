# SPDX-License-Identifier: Apache-2.0
"""What became of a proposal whose acceptance or rejection was refused, in words."""

from typing import Any

from django.utils.translation import gettext as _

from nova_vp.action_results import NO_PROPOSAL, PROPOSED, WITHDRAWN
from vp_client import formatters
from vp_client.client import Client
from vp_client.errors import Refused, VpError
from vp_dashboard import api, texts

CONFLICT = 409


def why_refused(client: Client, action_id: str, host: str, exc: VpError) -> str:
    """Two requests at most, of which an answer tells more than the refusal: vp-api has what the
    agent reported since the page was read."""
    said = api.problem(exc)
    if not isinstance(exc, Refused) or exc.status != CONFLICT:
        return said
    try:
        action = client.show_action(action_id, host)
        return _told(client, action, said)
    except VpError:
        return said


def _told(client: Client, action: dict[str, Any], said: str) -> str:
    result = action["result"]
    if result == WITHDRAWN or (result == PROPOSED and NO_PROPOSAL in said):
        return str(_("This is no longer proposed: %s.") % _why_withdrawn(client, action))
    if result == PROPOSED:
        return said
    return str(_("This is no longer proposed: %s.") % texts.result(result))


def _why_withdrawn(client: Client, action: dict[str, Any]) -> str:
    """By how the server is now for which it was proposed."""
    victim = action["victim"]
    if victim is None:
        return str(_("its agent does not find it useful any more"))
    return str(_how_it_is(client, victim["server_id"]) % {"name": formatters.name(victim)})


def _how_it_is(client: Client, server_id: str) -> str:
    vp = None
    with api.unless_unknown():
        vp = client.show_vp(server_id)
    if vp is None:
        return str(_("the server %(name)s is not there any more"))
    if vp["hurt_by_neighbour"] is False:
        return str(_("the server %(name)s is not degraded any more"))
    return str(_("its agent does not find it useful for %(name)s any more"))
