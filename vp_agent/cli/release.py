# SPDX-License-Identifier: Apache-2.0
"""Undo without an agent: what a systemd timer, OnFailure= or an operator runs.

No lease inside a process survives that process, so this reads the journals in the domains'
metadata and restores by the same path the agent uses. What a living agent holds is left alone by
`--expired`, unless a lease of its own has run out; without it, a living agent is asked to do the
undo itself.
"""

import argparse
import sys
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from oslo_config import cfg

from nova_vp.core.types.guest import Unmanaged
from nova_vp.core.types.knob import Applied
from vp_agent import wiring
from vp_agent.drivers.base import GuestsDriver, Journal
from vp_agent.loop.control_socket import AlreadyRunning, RunFolder, ask
from vp_agent.loop.executor import Executor, over
from vp_agent.loop.reconcile import to_undo
from vp_agent.loop.state import StateFolder

LEASE_S = 60.0
"""An agent that has not ticked for so long no longer holds what it applied."""


@dataclass(frozen=True, slots=True)
class Released:
    restored: tuple[str, ...]
    failed: tuple[str, ...]
    note: str = ""


@dataclass(frozen=True, slots=True)
class Release:
    """The undo of one host, by whoever is not its agent."""

    folder: RunFolder
    guests: GuestsDriver
    journal: Journal
    executor: Executor
    epochs: Collection[int]
    """Of the runs on this host."""
    now_s: Callable[[], float] = time.monotonic
    """One clock for all processes of this host; leases were given by it."""

    def everything(self) -> Released:
        """Raises HostUnavailable, Refused, NoAgent."""
        return self._restore_unless_alive(self._ask_the_agent)

    def expired(self) -> Released:
        """What no living agent holds any more. Raises HostUnavailable."""
        return self._restore_unless_alive(self._restore_from_a_silent_agent)

    def _restore_unless_alive(self, otherwise: Callable[[], Released]) -> Released:
        try:
            with self.folder.locked():
                done = self._restore(self.journal.read())
                if not (done.failed or self._is_somebody_arriving()):
                    self.folder.forget_beat()
                return done
        except AlreadyRunning:
            return otherwise()

    def _is_somebody_arriving(self) -> bool:
        """What comes along shows only once a migration is over: there is something to look for."""
        if self.folder.was_asked_lately():
            return True
        return any(guest.unmanaged is Unmanaged.MIGRATING for guest in self.guests.read())

    def _ask_the_agent(self) -> Released:
        entries = tuple(self.journal.read())
        if ask(self.folder, "release"):
            return Released(
                entries, (), "restored by the running agent, which is now in mode observe"
            )
        return Released((), entries, "the running agent could not restore all servers; see its log")

    def _restore_from_a_silent_agent(self) -> Released:
        silent_s = self.folder.silent_for_s()
        if silent_s is not None and silent_s < LEASE_S:
            return self._restore_lapsed()
        return self._restore(self.journal.read())

    def _restore_lapsed(self) -> Released:
        now_s = self.now_s()
        entries = {uuid: over(entry, now_s) for uuid, entry in self.journal.read().items()}
        lapsed = {uuid: entry for uuid, entry in entries.items() if entry.held}
        if not lapsed:
            return Released((), (), "nothing has expired: a running agent holds the leases")
        return self._restore(lapsed)

    def _restore(self, journalled: Mapping[str, Applied]) -> Released:
        here = {guest.uuid: guest for guest in self.guests.read()}
        entries: list[Applied] = [
            to_undo(entry, here[uuid], self.epochs) if uuid in here else entry
            for uuid, entry in journalled.items()
        ]
        failed = self.executor.undo(entries, waits=True)
        restored = tuple(e.guest_uuid for e in entries if e.guest_uuid not in failed)
        return Released(restored, failed)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--expired",
        action="store_true",
        help="Restore only what no running agent holds; for a systemd timer and OnFailure=",
    )


def command(conf: cfg.ConfigOpts) -> int:
    # Whatever the host cannot do any more must not keep the rest from going back.
    side = wiring.libvirt_side(conf, undoes_only=True)
    state = StateFolder(conf.agent.state_directory)
    executor = Executor(side.journal, side.actuators, epoch=0)
    folder = RunFolder(conf.agent.run_directory)
    undo = Release(folder, side.guests, side.journal, executor, state.epochs())
    done = undo.expired() if conf.command.expired else undo.everything()
    side.close()
    return _tell(done)


def _tell(done: Released) -> int:
    if done.note:
        print(done.note)
    for uuid in done.restored:
        print(f"restored {uuid}")
    for uuid in done.failed:
        print(f"not restored {uuid}: see the log, then run this command again", file=sys.stderr)
    if not (done.restored or done.failed or done.note):
        print("nothing to restore")
    return 1 if done.failed else 0
