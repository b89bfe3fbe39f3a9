# SPDX-License-Identifier: Apache-2.0
"""Keeps the traits of hosts in Placement as their agents report them, on a thread of its own.

Any number of vp-schedulers may do it at once: each compares what the database says with what
Placement says and writes the differences, under the provider's generation. nova-compute keeps
traits that are not its own. A large cloud that is new to us is read and written by and by: neither
the database nor Placement is there for us alone.
"""

import logging
import random
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from keystoneauth1 import exceptions
from keystoneauth1.adapter import Adapter
from oslo_config import cfg

from nova_vp.db.records import HostHead, HostRecord
from nova_vp.db.report_store import ERRORS
from vp_scheduler.escalation import session
from vp_scheduler.escalation.session import Cloud
from vp_scheduler.placement.host_traits import OURS, HostTraits, host_traits_of, traits_of

LOG = logging.getLogger(__name__)
MICROVERSION = "1.18"
"""The first that lists providers by the traits they have."""
TRIES = 4
WRITES_PER_S = 20.0
"""Hosts, of two requests each. 10 000 new ones take some nine minutes, and no host waits for them
to be through: which ones come first is left to chance, every time anew."""
READS_PER_S = 100.0
"""Whole reports: each costs some 2.5 ms in the process that also stores reports."""
FEW = 50
FIRST_WITHIN_S = 5.0
JITTER_RATIO = 0.1
NONE: frozenset[str] = frozenset()
_UNUSABLE = (exceptions.ClientException, *ERRORS, ValueError, KeyError)
"""What ends one comparison: the last two are answers that are not Placement's, a proxy's say."""


class Reports(Protocol):
    """What of `Store` is used."""

    def list_heads(self) -> list[HostHead]: ...

    def get_host(self, name: str) -> HostRecord | None: ...


@dataclass(frozen=True, slots=True)
class Provider:
    uuid: str
    name: str
    ours: frozenset[str] = frozenset()


class Placement:
    """Of Placement's API, what traits need. Raises keystoneauth's ClientException."""

    def __init__(self, adapter: Adapter) -> None:
        self._adapter = adapter

    def create_traits(self) -> None:
        """Placement knows only what was named once; again does no harm."""
        for name in sorted(OURS):
            self._adapter.put(f"/traits/{name}")

    def providers_with_ours(self) -> dict[str, Provider]:
        """By name, in one request per trait, however many hosts there are."""
        found: dict[str, Provider] = {}
        for trait in sorted(OURS):
            for one in self._list(required=trait):
                before = found.get(one.name, one)
                found[one.name] = replace(before, ours=before.ours | {trait})
        return found

    def find(self, names: Collection[str]) -> dict[str, Provider]:
        """Those that there are, by name: few are asked for one by one, many come with all."""
        if len(names) <= FEW:
            found = (one for name in names for one in self._list(name=name))
        else:
            found = (one for one in self._list() if one.name in names)
        return {one.name: one for one in found}

    def set_ours(self, provider: Provider, wanted: frozenset[str]) -> None:
        """All others as they are. Raises Conflict where others write faster than we do."""
        path = f"/resource_providers/{provider.uuid}/traits"
        for attempt in range(1, TRIES + 1):
            now = self._adapter.get(path).json()
            traits = (set(now["traits"]) - OURS) | wanted
            if traits == set(now["traits"]):
                return
            generation = "resource_provider_generation"
            body = {"traits": sorted(traits), generation: now[generation]}
            try:
                self._adapter.put(path, json=body)
                return
            except exceptions.Conflict:
                if attempt == TRIES:
                    raise

    def _list(self, **query: str) -> Iterator[Provider]:
        answer = self._adapter.get("/resource_providers", params=query).json()
        for one in answer["resource_providers"]:
            yield Provider(one["uuid"], one["name"])


class Hosts:
    """Which hosts report, and what they can do: their reports are read once per agent's run.

    Whether a host still reports is seen by its order going on, by this process's own clock: the
    clock of whoever stored the report is trusted only until then.
    """

    def __init__(
        self,
        reports: Reports,
        stale_after_s: float,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._reports = reports
        self._stale_after_s = stale_after_s
        self._clock = clock
        self._wall_clock = wall_clock
        self._began_s = clock()
        self._news: dict[str, tuple[Any, float]] = {}
        """Order, and when it was the news."""
        self._able: dict[str, tuple[int, HostTraits]] = {}

    @property
    def is_sure(self) -> bool:
        """Whether a host that is well would have been heard by now."""
        return self._clock() - self._began_s > self._stale_after_s

    def wanted(self, rest: Callable[[], object] = lambda: None) -> dict[str, frozenset[str]]:
        """Traits by provider name, of hosts that report. `rest`: what is done after each report
        that had to be read. Raises `ERRORS` of the database."""
        heads = self._reports.list_heads()
        known = {head.host for head in heads}
        self._news = {host: news for host, news in self._news.items() if host in known}
        self._able = {host: able for host, able in self._able.items() if host in known}
        fresh = [head for head in heads if self._is_fresh(head)]
        able = ((self._capabilities(head, rest), head.mode) for head in fresh)
        return {one.provider: traits_of(one, mode) for one, mode in able if one}

    def _is_fresh(self, head: HostHead) -> bool:
        now_s = self._clock()
        version, news_at_s = self._news.get(head.host, (None, 0.0))
        if version is None:
            news_at_s = now_s - max(0.0, self._wall_clock() - head.received_at.timestamp())
        elif version != head.version:
            news_at_s = now_s
        self._news[head.host] = head.version, news_at_s
        return now_s - news_at_s <= self._stale_after_s

    def _capabilities(self, head: HostHead, rest: Callable[[], object]) -> HostTraits | None:
        epoch, able = self._able.get(head.host, (None, None))
        if epoch == head.version.epoch:
            return able
        record = self._reports.get_host(head.host)
        rest()
        if record is None:
            return None
        able = host_traits_of(record.report)
        if record.report.get("hypervisor") != "":  # not asked yet: the next report has it
            self._able[head.host] = record.epoch, able
        return able


class TraitSync:
    """Brings Placement to what the hosts report, every now and then until closed."""

    def __init__(
        self,
        hosts: Hosts,
        placement: Placement,
        interval_s: float,
        writes_per_s: float = WRITES_PER_S,
    ) -> None:
        self._hosts = hosts
        self._placement = placement
        self._interval_s = interval_s
        self._writes_per_s = writes_per_s
        self._has_created = False
        self._stop = threading.Event()
        self._is_failing = False
        self._unknown: frozenset[str] = frozenset()
        self._thread = threading.Thread(target=self._run, name="traits", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self, timeout_s: float = 5.0) -> None:
        self._stop.set()
        self._thread.join(timeout_s)

    def _run(self) -> None:
        # Several vp-schedulers are often started by one hand.
        pause_s = random.uniform(0.0, min(FIRST_WITHIN_S, self._interval_s))
        while not self._stop.wait(pause_s):
            self._try_once()
            pause_s = self._interval_s * random.uniform(1 - JITTER_RATIO, 1 + JITTER_RATIO)

    def _try_once(self) -> None:
        try:
            self.bring_up_to_date()
        except _UNUSABLE as exc:
            if not self._is_failing:
                first_line = str(exc).partition("\n")[0]
                LOG.error(
                    "cannot keep the hosts' traits, trying again; see [cloud]: %s", first_line
                )
            self._is_failing = True
        else:
            if self._is_failing:
                LOG.info("the hosts' traits are kept again")
            self._is_failing = False

    def bring_up_to_date(self) -> None:
        """Raises one of _UNUSABLE."""
        if not self._has_created:
            self._placement.create_traits()
            self._has_created = True
        present = self._placement.providers_with_ours()
        wanted = self._hosts.wanted(rest=lambda: self._stop.wait(1 / READS_PER_S))
        changes = _differences(wanted, present)
        if self._hosts.is_sure:
            changes += [(name, NONE) for name in sorted(present.keys() - wanted.keys())]
        providers = present | self._placement.find({n for n, _ in changes} - present.keys())
        self._tell_unknown(frozenset(name for name, _ in changes if name not in providers))
        self._write([(providers[name], traits) for name, traits in changes if name in providers])

    def _write(self, changes: Sequence[tuple[Provider, frozenset[str]]]) -> None:
        """As many as there is time for until the next comparison, which finds the others. By
        chance, so that several vp-schedulers seldom write the same host at the same time."""
        most = max(1, int(self._interval_s * self._writes_per_s))
        if len(changes) > most:
            LOG.info("%d hosts' traits differ: %d of them are set now", len(changes), most)
        for provider, traits in random.sample(changes, min(most, len(changes))):
            self._set(provider, traits)
            if self._stop.wait(1 / self._writes_per_s):
                return

    def _set(self, provider: Provider, traits: frozenset[str]) -> None:
        """One host that cannot be written is no reason to leave the others."""
        told = ", ".join(sorted(traits)) or "none of ours"
        try:
            self._placement.set_ours(provider, traits)
        except (exceptions.Conflict, exceptions.NotFound) as exc:
            LOG.warning("host=%s traits not set until next time: %s: %s", provider.name, told, exc)
        else:
            LOG.info("host=%s traits: %s", provider.name, told)

    def _tell_unknown(self, names: frozenset[str]) -> None:
        if new := names - self._unknown:
            LOG.warning(
                "Placement has no provider named %s: does nova-compute run there?",
                ", ".join(sorted(new)[:10]),
            )
        self._unknown = names


def _differences(
    wanted: Mapping[str, frozenset[str]], present: Mapping[str, Provider]
) -> list[tuple[str, frozenset[str]]]:
    return [
        (name, traits)
        for name, traits in sorted(wanted.items())
        if name not in present or present[name].ours != traits
    ]


def open_traits(conf: cfg.ConfigOpts, reports: Reports) -> TraitSync | None:
    """None where nobody gave us an identity in the cloud, or wants no traits. Raises cfg.Error."""
    settings = conf.vp_scheduler
    if not settings.traits_interval_s or not session.is_configured(conf):
        return None
    placement = Placement(adapter_to(session.open_cloud(conf)))
    hosts = Hosts(reports, settings.stale_after_s)
    return TraitSync(hosts, placement, settings.traits_interval_s)


def adapter_to(cloud: Cloud) -> Adapter:
    return Adapter(
        session=cloud.session,
        service_type="placement",
        interface=cloud.interfaces,
        region_name=cloud.region_name,
        endpoint_override=cloud.placement_override,
        default_microversion=MICROVERSION,
    )
