# SPDX-License-Identifier: Apache-2.0
"""From Nova's objects to the judge's arguments, for the filter and the weigher alike.

No I/O and no waiting: this runs once or twice per host and request. Of the objects only what is
there already is read, since touching an unset field of an Instance loads it from the database.
"""

import logging
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from oslo_config import cfg

from nova_vp import flavor_specs, wire
from nova_vp.conf.scheduler import StaleHosts
from nova_vp.core.model import Isolation
from vp_scheduler.host_view import HostDigest, HostView
from vp_scheduler.judge import Verdict, judge

LOG = logging.getLogger(__name__)
MAX_TOLD = 20
"""Hosts named in one line of the log."""
MAX_REMEMBERED = 10_000


@dataclass(frozen=True, slots=True)
class Request:
    """What one server asks of a host."""

    server: str
    vcpus: int
    isolation: Isolation


@dataclass(frozen=True, slots=True)
class Settings:
    """What an operator may change at run time, read once per request."""

    good_enough_ratio: float
    refuses_unknown: bool

    @classmethod
    def read(cls, conf: cfg.ConfigOpts) -> "Settings":
        return cls(
            good_enough_ratio=conf.policy.strict_max_hurt_ratio,
            refuses_unknown=conf.vp_scheduler.stale_hosts == StaleHosts.REFUSE.value,
        )


class FlavorReader:
    """Flavor extra specs to what is asked, each faulty flavor reported once."""

    def __init__(self) -> None:
        self._reported: set[tuple[str, str]] = set()

    def read(self, spec: Any) -> Request:
        flavor = spec.flavor
        extra_specs = flavor.extra_specs if "extra_specs" in flavor else {}
        try:
            isolation = flavor_specs.parse(extra_specs).isolation
        except flavor_specs.InvalidFlavorSpec as exc:
            isolation = Isolation.NONE
            self._report(flavor.flavorid, str(exc))
        return Request(spec.instance_uuid, flavor.vcpus, isolation)

    def _report(self, flavor_id: str, fault: str) -> None:
        fact = (flavor_id, fault)
        if fact not in self._reported and len(self._reported) < MAX_REMEMBERED:
            self._reported.add(fact)
            LOG.warning(
                "flavor %s: %s. Its servers are placed as if they asked for no isolation; "
                "correct the flavor's extra specs and resize or recreate the servers",
                flavor_id,
                fault,
            )


@dataclass(frozen=True, slots=True)
class _Counted:
    """Which of a host's servers one digest did not know; remembered until either changes."""

    digest: HostDigest
    servers: frozenset[str]
    waiting: tuple[str, ...]


class Placement:
    """Thread-safe: what it remembers is replaced as a whole."""

    def __init__(self, view: HostView) -> None:
        self.view = view
        self.flavors = FlavorReader()
        self._counted: dict[str, _Counted] = {}

    def judge(self, host_state: Any, request: Request, settings: Settings) -> Verdict | None:
        """None: nothing is known of the host."""
        digest = self.view.get(host_state.host)
        if digest is None:
            return None
        waiting = self._waiting_vcpus(digest, host_state, request)
        return judge(digest, request.vcpus, waiting, settings.good_enough_ratio)

    def _waiting_vcpus(
        self, digest: HostDigest, host_state: Any, request: Request
    ) -> tuple[int, ...]:
        """Servers that Nova has put there and the agent has not seen.

        Within a multi-create Nova only raises `num_instances`; these are like the one asked for.
        """
        instances = host_state.instances
        counted = self._counted.get(digest.host)
        if counted is None or counted.digest is not digest or counted.servers != instances.keys():
            counted = _count(digest, list(instances))
            self._counted[digest.host] = counted
        unnamed = max(0, host_state.num_instances - len(counted.servers))
        if not counted.waiting and not unnamed:
            return ()
        named = (
            _vcpus_of(instances.get(uuid), request.vcpus)
            for uuid in counted.waiting
            if uuid != request.server
        )
        return (*named, *[request.vcpus] * unnamed)


def _count(digest: HostDigest, servers: Collection[str]) -> _Counted:
    waiting = tuple(uuid for uuid in servers if wire.mark_of(uuid) not in digest.known)
    return _Counted(digest, frozenset(servers), waiting)


def _vcpus_of(instance: Any, default: int) -> int:
    if instance is not None and "vcpus" in instance and instance.vcpus:
        return int(instance.vcpus)
    return default


def tell(plugin: str, request: Request, facts: Sequence[str], count: int) -> None:
    """One line per request: which hosts, and why. `facts`: of the first MAX_TOLD of `count`."""
    more = f"; and {count - MAX_TOLD} more hosts" if count > MAX_TOLD else ""
    text = "; ".join(facts) + more
    LOG.info("%s: server %s (%s): %s", plugin, request.server, request.isolation.value, text)
