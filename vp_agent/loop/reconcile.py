# SPDX-License-Identifier: Apache-2.0
"""What must not stand on this host any more goes back before a tick decides.

Caps whose lease has ended, what another run of the agent left, and whatever is on servers that are
opted out or about to be migrated. After each change the guests are read again.
"""

import logging
from collections.abc import Collection
from dataclasses import replace

from nova_vp.core.types.guest import Guest, Unmanaged
from nova_vp.core.types.knob import Applied, Held, Knob
from vp_agent.loop.executor import Executor
from vp_agent.loop.migration_holds import MigrationHolds
from vp_agent.loop.overrides import ServerOverrides
from vp_agent.loop.picture import HostReading, OwnHost

LOG = logging.getLogger(__name__)
Guests = tuple[Guest, ...]


def expire_leases(executor: Executor, now_s: float) -> None:
    """The core renews what it still wants; after a hang it may have come too late."""
    for uuid in sorted(executor.expire_leases(now_s)):
        LOG.warning("vp=%s lease expired, reverted", uuid)


def reconcile(
    host: OwnHost,
    reading: HostReading,
    overrides: ServerOverrides,
    holds: MigrationHolds | None,
    now_s: float,
) -> tuple[HostReading, dict[str, Applied]]:
    """The reading with guests as they are afterwards, and what this run still holds of them.

    Raises HostUnavailable.
    """
    host.executor.forget_others({guest.uuid for guest in reading.guests})
    host.executor.finish_moves(reading.memory_moves)
    guests, applied = _undo_other_runs(host, reading.guests)
    guests, applied = _give_back_exempt(host, overrides, guests, applied)
    if holds is not None:
        guests, applied = _release_migrants(host, overrides, holds, guests, applied, now_s)
    return replace(reading, guests=guests), applied


def _undo_other_runs(host: OwnHost, guests: Guests) -> tuple[Guests, dict[str, Applied]]:
    """What another run wrote (a crash, an arriving migrant) goes back before we decide.

    A guest that is still arriving takes no change; its turn comes once it is here.
    """
    entries = host.journal.read()
    ours = {uuid: a for uuid, a in entries.items() if a.epoch == host.epoch}
    if len(ours) == len(entries):
        return guests, ours
    here = {guest.uuid for guest in guests if guest.unmanaged is not Unmanaged.MIGRATING}
    others = here & (entries.keys() - ours.keys())
    if not others:
        return guests, ours
    found = (
        to_undo(entries[guest.uuid], guest, host.earlier_epochs)
        for guest in guests
        if guest.uuid in others
    )
    host.executor.undo(found, waits=False)
    for uuid in sorted(others):
        LOG.info("vp=%s changes of an earlier run reverted", uuid)
    return host.guests.read(), ours


def _give_back_exempt(
    host: OwnHost, overrides: ServerOverrides, guests: Guests, applied: dict[str, Applied]
) -> tuple[Guests, dict[str, Applied]]:
    """Those that an operator wants left alone bear nothing of ours, from the order on."""
    exempt = overrides.exempt(guests)
    ours = [_not_on_its_way(applied[uuid]) for uuid in exempt & applied.keys()]
    ours = [entry for entry in ours if entry.held]
    if not ours:
        return guests, applied
    failed = host.executor.undo(ours, waits=False)
    given_back = sorted({entry.guest_uuid for entry in ours} - set(failed))
    for uuid in given_back:
        LOG.info("vp=%s exempt, reverted", uuid)
    left = host.journal.read()
    return host.guests.read(), {u: left[u] for u in applied if u in left}


def _release_migrants(
    host: OwnHost,
    overrides: ServerOverrides,
    holds: MigrationHolds,
    guests: Guests,
    applied: dict[str, Applied],
    now_s: float,
) -> tuple[Guests, dict[str, Applied]]:
    """Those that the cluster migrates are released first, and left alone."""
    here = {guest.uuid for guest in guests}
    if holds.carry_out(lambda uuid: _release(host, overrides, uuid, here), now_s):
        guests = host.guests.read()
        left = host.journal.read()
        applied = {uuid: held for uuid, held in applied.items() if uuid in left}
    return holds.mark(guests, now_s), applied


def _release(host: OwnHost, overrides: ServerOverrides, uuid: str, here: Collection[str]) -> str:
    """Why not; empty: nothing of ours is on it. Raises HostUnavailable."""
    if uuid not in here:
        return "it is not running on this host"
    if overrides.is_exempt(uuid):
        return "an override exempts it"
    held = host.journal.read().get(uuid)
    host.memory.abort(uuid, "it is about to leave this host")
    if held is not None and not host.executor.release_guest(held):
        return "its settings could not be reverted; see the log of vp-agent"
    host.journal.reserve(uuid)
    return ""


def _not_on_its_way(entry: Applied) -> Applied:
    """Without memory that is going back already."""
    return replace(entry, held=tuple(held for held in entry.held if held.value != held.original))


def to_undo(entry: Applied, guest: Guest, epochs: Collection[int]) -> Applied:
    """What to restore: exactly the original on this host, Nova's bound for a migrant. `epochs`: of
    the runs on this host.

    A journal that travelled names CPUs and nodes of the host it came from.
    """
    if entry.epoch in epochs:
        return entry
    return replace(entry, held=tuple(_to_bound(held, guest) for held in entry.held))


def _to_bound(held: Held, guest: Guest) -> Held:
    if held.knob is Knob.PLACEMENT:
        return replace(held, original=(guest.allowed_cpus,))
    # Its memory was laid anew as it arrived.
    return replace(held, original=()) if held.knob is Knob.MEMORY else held
