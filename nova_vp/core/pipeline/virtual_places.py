# SPDX-License-Identifier: Apache-2.0
"""Where new servers would be placed on a host that only observes: computed, and given to nobody.

Servers that float share every cache, so that there is nothing to propose. With virtual places the
controllers that place servers decide as they would in the other modes. Whatever measures, blames,
bills, acts or publishes sees where the servers really run. Where any server of the host may be
changed, nobody has a virtual place: real changes are decided from real places alone.
"""

from collections.abc import Collection, Mapping
from dataclasses import replace

from nova_vp.core.types.claim import ClaimGroup, placements_of
from nova_vp.core.types.guest import Guest
from nova_vp.core.types.picture import Picture
from nova_vp.core.types.state import CoreState, VirtualPlace


def with_virtual_places(state: CoreState, picture: Picture) -> tuple[CoreState, Picture]:
    """The host as if these were real, and without those that hold no longer."""
    if not state.virtual_places:
        return state, picture
    places: Mapping[str, VirtualPlace] = {}
    if picture.only_observes:
        places = {
            guest.uuid: place
            for guest in picture.guests
            if (place := state.virtual_places.get(guest.uuid)) and _holds(place, guest, picture)
        }
    state = replace(state, virtual_places=places)
    if not places:
        return state, picture
    guests = tuple(
        guest._replace(placement=places[guest.uuid].cpus, vcpu_placement=())
        if guest.uuid in places
        else guest
        for guest in picture.guests
    )
    return state, replace(picture, guests=guests)


def _holds(place: VirtualPlace, guest: Guest, picture: Picture) -> bool:
    return (
        place.generation == guest.generation
        and guest.uuid not in picture.applied
        and guest.unmanaged is None
        and place.cpus < guest.placement
    )


def note_virtual_places(
    state: CoreState, picture: Picture, groups: Collection[ClaimGroup]
) -> CoreState:
    """`groups`: those that give a server its first place."""
    if not groups:
        return state
    generations = {guest.uuid: guest.generation for guest in picture.guests}
    new = {
        uuid: VirtualPlace(generations[uuid], cpus)
        for group in groups
        for uuid, cpus in placements_of(group).items()
    }
    return replace(state, virtual_places={**state.virtual_places, **new})
