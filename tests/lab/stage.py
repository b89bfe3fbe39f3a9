# SPDX-License-Identifier: Apache-2.0
"""A host on which nothing helps, and two others: one full of streams, one quiet.

What the escalation tests and the fault matrix have in common: who is on which host, how the harm is
turned on and off, and what the ledger says of it. No assertions on outcomes here.
"""

import subprocess
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

from oslo_config import cfg

from nova_vp.conf import database
from nova_vp.db.escalations import Ledger
from nova_vp.db.paging import Page
from nova_vp.db.read_api import ReadApi
from nova_vp.db.records import Escalation
from testbed.lab import cloud, settings
from tests.lab.hosts import (
    placement,
    set_mode,
    wait_for_vp,
    wait_until_homed,
    wait_until_measured,
)
from tests.lab.operators import CONTROLLER_CONF, host_conf, reconfigured

LAB = str(settings.LAB / "lab")
SOURCE, HOSTILE, QUIET = "vp1", "vp2", "vp3"
HOSTS = (SOURCE, HOSTILE, QUIET)
STREAM, CHASE = "work=stream:8192", "work=chase:384"
IMPATIENT = """
[policy]
controllers = initial_placement,vp
escalate_after_s = 9
"""
"""As soon as who was let loose is known for what it does: what changes without a suspect is taken
for a VP's own work after seven samples, and where it may go is judged by that."""
BUDGETS = """
escalation_poll_s = 0.5
escalation_hold_s = 0
escalation_running_per_host = 8
escalation_per_host_hour = 100000
escalation_per_vp_day = 100000
escalation_per_victim_day = 100000
escalation_per_project_day = 100000
"""
"""Of the lab's three hosts each serves many tests in an hour."""
ENFORCE = f"[vp_scheduler]\nescalation_mode = enforce{BUDGETS}"
DEADLINE_S = 120


class Escalations:
    """The cluster's, read from its database, since what serves them may be dead."""

    def __init__(self) -> None:
        conf = cfg.ConfigOpts()
        database.register_opts(conf)
        conf([], default_config_files=[str(CONTROLLER_CONF)])
        self._read_api, self._ledger = ReadApi(conf), Ledger(conf)

    def ids(self) -> list[str]:
        """The latest first."""
        page = Page("received_at", is_descending=True)
        return [one.id for one in self._read_api.list_escalations(None, None, page).items]

    def since(self, known: Collection[str]) -> list[Escalation]:
        found = (self._ledger.get(id) for id in self.ids() if id not in known)
        return [one for one in found if one is not None]


@contextmanager
def three_hosts(cloud_conf: str = ENFORCE, services: tuple[str, ...] = ()) -> Iterator[None]:
    """A third host in advise as the others, impatient agents in enforce on the source, and a
    cluster that may migrate."""
    subprocess.run([LAB, "up", "--hosts", str(len(HOSTS))], check=True)
    with ExitStack() as stack:
        stack.callback(subprocess.run, [LAB, "remove", QUIET], check=True)
        stack.callback(_empty, QUIET)
        agent = f"vp-agent@{SOURCE}"
        stack.enter_context(reconfigured(host_conf(SOURCE), IMPATIENT, agent))
        stack.enter_context(reconfigured(CONTROLLER_CONF, cloud_conf, "vp-scheduler", *services))
        set_mode(SOURCE, "enforce")
        set_mode(QUIET, "advise")
        yield
        set_mode(SOURCE, "advise")


def _empty(host: str) -> None:
    admin = cloud.connect()
    here = [s for s in admin.compute.servers(all_projects=True) if s.compute_host == host]
    cloud.delete(admin, *here)


def _lives_off_cache(vp: Mapping[str, Any]) -> bool:
    return vp["state"] in (0, 1) and "cache" in vp["sensitivity"]


class Residents:
    """Those who make the other two hosts what they are, for as long as the tests last."""

    def __init__(self, admin: Any) -> None:
        self._admin = admin
        cloud.put_flavor(admin, "t.resident", specs=SLOW)
        cloud.put_flavor(admin, "t.ballast", ram=1024)
        wanted = [
            *((f"t-storm-{n}", "t.resident", STREAM, HOSTILE) for n in (0, 1)),
            *((f"t-calm-{n}", "vp.tiny", "work=idle", QUIET) for n in (0, 1)),
        ]
        self.servers = [
            cloud.boot(admin, name, flavor, work, host=host, wait=False)
            for name, flavor, work, host in wanted
        ]
        for server, (*_, host) in zip(self.servers, wanted, strict=True):
            wait_until_homed(host, server.id)
        for server in self.servers[:2]:
            wait_until_measured(HOSTILE, server.id, state=8)

    @contextmanager
    def full(self, host: str) -> Iterator[None]:
        """Of memory, more than the other one: so Nova's own weigher prefers the other."""
        server = cloud.boot(self._admin, "t-ballast", "t.ballast", "work=idle", host=host)
        try:
            assert free_ram(self._admin, host) < free_ram(self._admin, _other(host))
            yield
        finally:
            cloud.delete(self._admin, server)

    @contextmanager
    def delicate(self, host: str) -> Iterator[None]:
        """With somebody in each cache who lives off it: no place for a storm."""
        names = [f"t-delicate-{n}" for n in (0, 1)]
        pair = [
            cloud.boot(self._admin, name, "t.resident", CHASE, host=host, wait=False)
            for name in names
        ]
        try:
            assert {wait_until_homed(host, server.id) for server in pair} == {0, 1}
            for server in pair:
                wait_for_vp(host, server.id, "what it is like", _lives_off_cache, DEADLINE_S)
            yield
        finally:
            cloud.delete(self._admin, *pair)


def _other(host: str) -> str:
    return QUIET if host == HOSTILE else HOSTILE


def free_ram(admin: Any, host: str) -> int:
    """As Nova's own weigher sees it."""
    hypervisors = admin.compute.get("/os-hypervisors/detail", microversion="2.60").json()
    [found] = [h for h in hypervisors["hypervisors"] if h["service"]["host"] == host]
    return int(found["free_ram_mb"])


class Scene:
    """One victim, and whoever is needed so that the host cannot help it."""

    def __init__(self, admin: Any) -> None:
        self.admin = admin
        self.cast: dict[str, Any] = {}
        self._escalations = Escalations()
        self.forget_escalations()

    def boot(self, name: str, work: str, specs: Mapping[str, str], **size: int) -> Any:
        flavor = cloud.put_flavor(self.admin, f"t.{name}", specs=dict(specs), **size)
        server = cloud.boot(self.admin, f"t-{name}", flavor, work, host=SOURCE)
        self.cast[name] = server
        return server

    def silence(self, name: str) -> None:
        self.admin.compute.pause_server(self.cast[name])
        self.admin.compute.wait_for_server(self.cast[name], status="PAUSED", wait=60, interval=0.2)

    def let_loose(self, name: str) -> None:
        self.admin.compute.unpause_server(self.cast[name])
        self.admin.compute.wait_for_server(self.cast[name], status="ACTIVE", wait=60, interval=0.2)

    def wait_until_undisturbed(self, name: str) -> None:
        """In a cache of its own, by whose doing ever, and known to live off it."""
        server = self.cast[name]
        wait_until_homed(SOURCE, server.id)
        wait_for_vp(SOURCE, server.id, f"what {name} is like", _lives_off_cache, DEADLINE_S)

    def home(self, name: str) -> frozenset[int]:
        return placement(self.cast[name].id)

    def forget_escalations(self) -> None:
        """What is there is of earlier rounds."""
        self._known = frozenset(self._escalations.ids())

    def fresh(self) -> list[Escalation]:
        return self._escalations.since(self._known)

    def wait_for(self, accept: Callable[[Escalation], object], what: str) -> Escalation:
        def found() -> Escalation | None:
            return next(filter(accept, self.fresh()), None)

        return cloud.wait_for(found, what, deadline_s=DEADLINE_S, interval_s=0.5)

    def strike(self) -> None:
        cloud.delete(self.admin, *self.cast.values())


SLOW = {"quota:cpu_period": "100000", "quota:cpu_quota": "40000"}
"""All hosts share two CPUs. It misses as much per instruction as any."""
NOVAS_OWN = {"hw:numa_nodes": "1"}
"""The agent watches such a guest and never moves it; Nova can."""
DEAREST = {"vp:isolation": "soft", "vp:priority": "10"}
SOFT = {"vp:isolation": "soft"}


def between_two_storms(
    scene: Scene, victim: Mapping[str, str], aggressor: Mapping[str, str]
) -> None:
    """Streams that are Nova's own in both caches; the one beside the victim is silent at first. An
    idle lodger with two vCPUs makes the other cache the fuller one, so that the victim's home is
    this one.
    """
    scene.boot("lodger", "work=idle", {}, vcpus=2)
    wait_until_homed(SOURCE, scene.cast["lodger"].id)
    scene.boot("other-storm", STREAM, NOVAS_OWN, ram=256)
    scene.boot("aggressor", STREAM, {**NOVAS_OWN, **aggressor})
    scene.silence("aggressor")
    wait_until_measured(SOURCE, scene.cast["other-storm"].id, state=8)
    scene.boot("victim", CHASE, victim)
    scene.wait_until_undisturbed("victim")
    assert scene.home("victim") == scene.home("aggressor") != scene.home("other-storm")


def no_room_beside_the_quiet(scene: Scene) -> None:
    """The storm could be anywhere but beside one who misses nothing and would lose all of it. That
    one and the victim are Nova's own, so that nobody else can move; it is the smaller one.
    """
    scene.boot("lodger", "work=idle", {}, vcpus=2)
    wait_until_homed(SOURCE, scene.cast["lodger"].id)
    scene.boot("aggressor", STREAM, {})
    wait_until_homed(SOURCE, scene.cast["aggressor"].id)
    wait_until_measured(SOURCE, scene.cast["aggressor"].id, state=8)
    scene.silence("aggressor")
    scene.boot("quiet", "work=chase:256", {**NOVAS_OWN, **SOFT})
    scene.boot("victim", CHASE, {**NOVAS_OWN, **SOFT}, ram=512)
    for name in ("quiet", "victim"):
        scene.wait_until_undisturbed(name)
    assert scene.home("victim") == scene.home("aggressor") != scene.home("quiet")
