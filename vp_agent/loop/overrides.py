# SPDX-License-Identifier: Apache-2.0
"""Overrides of single servers of this host (mode, opt-out, priority, exemption), by who gave them.

Two sets, each a file in the state folder: those of the cloud (through vp-api, sent by any
vp-scheduler) and those of this host (`vp-agent override`). The more careful one holds. They arrive
on other threads; the tick asks for them. Nothing here touches a guest.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from nova_vp import wire
from nova_vp.core.types.guest import Guest, Unmanaged
from nova_vp.core.types.mode_levels import ModeLevel, SetMode, effective
from nova_vp.core.types.policy import Mode
from nova_vp.server_override import (
    NO_OVERRIDE,
    ServerOverride,
    overrides_text,
    read_overrides,
)
from vp_agent.commands import CannotOverride
from vp_agent.loop.latest_message import LatestMessage
from vp_agent.loop.state import StateFolder

LOG = logging.getLogger(__name__)
CLOUD, LOCAL = "overrides.json", "local_overrides.json"
UNTOLD_S = 5.0
"""So long a server that has just arrived is left alone, unless somebody says what is overridden of
it: an override must hold although the server moved. A vp-scheduler answers within a second."""
_JUST_ARRIVED = "it has just arrived; its overrides are requested from vp-scheduler"
_UNTIL = {
    CLOUD: "until vp-scheduler tells the overrides of the cloud; without a vp-scheduler, delete the"
    " file and restart",
    LOCAL: "until something is overridden by `vp-agent override`; set the overrides of this host"
    " again, or delete the file and restart",
}
"""What ends that of each file, for its line in the log."""

Overrides = Mapping[str, ServerOverride]


class CloudOverrides(NamedTuple):
    """What the cloud's people overrode, as far as this host knows."""

    version: int
    servers: Overrides
    """Those that it was told of, whether anything is overridden or not."""


NO_CLOUD_OVERRIDES = CloudOverrides(0, {})


class ServerOverrides:
    def __init__(self, state: StateFolder, clock: Callable[[], float] = time.time) -> None:
        """`clock`: seconds since 1970."""
        self._state = state
        self._lock = threading.Lock()
        self._lost: set[str] = set()
        """Files that could not be read: nobody knows what they override until others replace
        them."""
        self._latest = LatestMessage("overrides", self._read(CLOUD), self._write, clock)
        self._local = self._read(LOCAL).servers
        self._obeyed = _both(self.told.servers, self._local)
        self._guests: tuple[Guest, ...] = ()
        self._untold_since_s: dict[str, float] = {}

    def take(self, text: object) -> int | None:
        """All overrides of the servers it names; others that run here keep theirs.

        None: they hold. Else they are ignored, and this is the newer version that holds. Raises
        wire.BadMessage and OSError.
        """
        version, servers = read_overrides(text)
        with self._lock:
            newer = self._latest.take(version, lambda known: self._with_others(known, servers))
            if newer is not None:
                return newer
            self._hold()
            self._lost.discard(CLOUD)
        return None

    def _with_others(self, version: int, servers: Overrides) -> CloudOverrides:
        here = {guest.uuid for guest in self._guests}
        kept = {uuid: one for uuid, one in self.told.servers.items() if uuid in here}
        return CloudOverrides(version, dict(list({**kept, **servers}.items())[-wire.MAX_SERVERS :]))

    def override(self, server: str, changes: Mapping[str, Any]) -> None:
        """By somebody on this host: name or UUID of a server that runs here, and the fields of
        `ServerOverride` that change. Raises CannotOverride and OSError."""
        with self._lock:
            uuid = self._uuid_of(server)
            override = self._local.get(uuid, NO_OVERRIDE)._replace(**changes)
            local = {**self._local, uuid: override}
            local = {uuid: one for uuid, one in local.items() if not one.is_nothing}
            self._state.set_message(LOCAL, overrides_text(0, local))
            self._local = local
            self._lost.discard(LOCAL)
            self._hold()

    def rows(self) -> list[dict[str, Any]]:
        """Of whom anything is overridden, for people."""
        with self._lock:
            names = {guest.uuid: guest.name for guest in self._guests}
            cloud, local, overridden = self.told.servers, self._local, sorted(self._obeyed)
        return [
            {
                "uuid": uuid,
                "name": names.get(uuid, ""),
                "cloud": cloud.get(uuid, NO_OVERRIDE).as_message(),
                "here": local.get(uuid, NO_OVERRIDE).as_message(),
            }
            for uuid in overridden
        ]

    def _uuid_of(self, server: str) -> str:
        found = {
            guest.uuid
            for guest in self._guests
            if server.lower() == guest.uuid or server in (guest.name, guest.domain_name)
        }
        # What was overridden of one that has left can still be taken back.
        found |= {server.lower()} & self._local.keys()
        if len(found) != 1:
            names = ", ".join(sorted(guest.name or guest.uuid for guest in self._guests))
            why = (
                "several servers on this host have that name"
                if found
                else "no such server on this host"
            )
            raise CannotOverride(
                f"{server}: {why}; give a UUID of `vp-agent status --json`: {names}"
            )
        return found.pop()

    def _hold(self) -> None:
        self._obeyed = _both(self.told.servers, self._local)

    @property
    def told(self) -> CloudOverrides:
        return self._latest.content

    def is_exempt(self, uuid: str) -> bool:
        return self._obeyed.get(uuid, NO_OVERRIDE).exempt

    def exempt(self, guests: Iterable[Guest]) -> frozenset[str]:
        """Those that may not bear anything of ours, and can be changed now."""
        exempt = {uuid for uuid, override in self._obeyed.items() if override.exempt}
        return frozenset(
            guest.uuid
            for guest in (guests if exempt else ())
            if guest.unmanaged is not Unmanaged.MIGRATING and guest.uuid in exempt
        )

    def mark(
        self, guests: tuple[Guest, ...], host: tuple[SetMode, ...], now_s: float
    ) -> tuple[Guest, ...]:
        """The same guests, as they are to be treated. `host`: the modes that are set for it."""
        with self._lock:
            self._guests, obeyed = guests, self._obeyed
            untold = self._untold(guests, now_s)
        if not obeyed and not untold:
            return guests
        return tuple(
            _untouched(guest, untold[guest.uuid])
            if guest.uuid in untold
            else _marked(guest, obeyed.get(guest.uuid, NO_OVERRIDE), host)
            for guest in guests
        )

    def _untold(self, guests: Iterable[Guest], now_s: float) -> dict[str, str]:
        """Servers of which nobody knows whether anything is overridden, and why."""
        lost = sorted(self._lost)
        if lost:
            why = f"{lost[0]} is not readable: see the agent's log"
            return {guest.uuid: why for guest in guests}
        return dict.fromkeys(self._just_arrived(guests, now_s), _JUST_ARRIVED)

    def _just_arrived(self, guests: Iterable[Guest], now_s: float) -> Iterable[str]:
        """Only where somebody ever told: a host without vp-scheduler waits for nobody. The time
        runs from when it has arrived: a long migration is no answer."""
        if self.told == NO_CLOUD_OVERRIDES:
            return ()
        known, before = self.told.servers, self._untold_since_s
        self._untold_since_s = {
            guest.uuid: before.get(guest.uuid, now_s)
            for guest in guests
            if guest.uuid not in known and guest.unmanaged is not Unmanaged.MIGRATING
        }
        since = self._untold_since_s.items()
        return [uuid for uuid, since_s in since if now_s - since_s < UNTOLD_S]

    def _write(self, told: CloudOverrides) -> None:
        self._state.set_message(CLOUD, overrides_text(*told))

    def _read(self, name: str) -> CloudOverrides:
        text = self._state.message(name)
        if text is None:
            return NO_CLOUD_OVERRIDES
        try:
            return CloudOverrides(*read_overrides(text))
        except wire.BadMessage as exc:
            self._lost.add(name)
            LOG.error("%s is not readable (%s): no server is changed %s", name, exc, _UNTIL[name])
            return NO_CLOUD_OVERRIDES


def _both(told: Overrides, local: Overrides) -> Overrides:
    """Without servers of which nothing is overridden."""
    both = {
        uuid: told.get(uuid, NO_OVERRIDE).with_local(local.get(uuid, NO_OVERRIDE))
        for uuid in told.keys() | local.keys()
    }
    return {uuid: override for uuid, override in both.items() if not override.is_nothing}


def _marked(guest: Guest, override: ServerOverride, host: tuple[SetMode, ...]) -> Guest:
    if override.is_nothing:
        return guest
    weight = guest.priority if override.weight is None else override.weight
    guest = _levelled(guest, override)
    mode = _own_mode(override, host)
    guest = guest._replace(mode=mode, priority=weight, refuses_help=override.opt_out)
    if guest.unmanaged:
        return guest
    if override.exempt:
        detail = "an override exempts it"
        return guest._replace(unmanaged=Unmanaged.EXEMPT, unmanaged_detail=detail)
    if mode is Mode.OBSERVE:
        detail = "an override sets it to mode observe"
        return guest._replace(unmanaged=Unmanaged.OVERRIDE_OBSERVE, unmanaged_detail=detail)
    return guest


def _own_mode(override: ServerOverride, host: tuple[SetMode, ...]) -> Mode | None:
    """None: the host's."""
    if override.mode is None:
        return None
    holds = effective((*host, SetMode(override.mode, ModeLevel.SERVER))).mode
    return None if holds is effective(host).mode else holds


def _levelled(guest: Guest, override: ServerOverride) -> Guest:
    """A tenant may ask for less than its flavor promises, and for no more: more is at the cost of
    best-effort servers of others. What the flavor leaves open is the tenant's."""
    if not guest.is_latency_critical:
        return guest
    percentile = override.latency_percentile
    return guest._replace(
        latency_target_ms=_larger(guest.latency_target_ms, override.latency_target_ms),
        latency_percentile=min(guest.latency_percentile, percentile or guest.latency_percentile),
        max_load=_larger(guest.max_load, override.max_load),
    )


def _larger(flavors: float | None, override: float | None) -> float | None:
    return max((one for one in (flavors, override) if one is not None), default=None)


def _untouched(guest: Guest, detail: str) -> Guest:
    if guest.unmanaged:
        return guest
    return guest._replace(unmanaged=Unmanaged.AWAITING_OVERRIDES, unmanaged_detail=detail)
