# SPDX-License-Identifier: Apache-2.0
"""With whom a change of places is weighed, for whatever reason it is."""

from collections.abc import Callable, Iterator, Sequence

from nova_vp.core.model.candidate import unit_of
from nova_vp.core.model.host import Host
from nova_vp.core.types.guest import Guest

PARTNERS = 8
"""Guests elsewhere, the quietest first."""


def pairs(
    host: Host, moved: Sequence[str], victim_uuid: str, loudness: Callable[[str], float]
) -> Iterator[tuple[tuple[Guest, ...], tuple[Guest, ...]]]:
    """Units that may change places: of `moved`, each with each partner that shares no LLC with the
    victim."""
    shared = {d.id for d in host.domains_of[victim_uuid]}
    partners = sorted(
        (
            uuid
            for uuid, guest in host.guests.items()
            if not guest.unmanaged and not shared & {d.id for d in host.domains_of[uuid]}
        ),
        key=lambda uuid: (loudness(uuid), uuid),
    )[:PARTNERS]
    for uuid in moved:
        if host.guests[uuid].unmanaged:
            continue
        for partner in partners:
            if host.guests[uuid].vp_id != host.guests[partner].vp_id:
                yield unit_of(host, uuid), unit_of(host, partner)
