# SPDX-License-Identifier: Apache-2.0
"""Who waits for CPU: relieved by the cheapest rung, helped by a cap that holds, or escalated.

`make cpu-test`; takes some minutes and is no part of `make lab-test`. Further hosts show cells of
CPUs that the software PMU shares out in modelled time: pins and quotas act there as on real CPUs,
and the kernel's files say who waited and who was throttled. Each act has its own
servers. They are idle while they boot one after the other, so that each gets the place that the act
needs, and begin their work at an uptime.
"""

import subprocess
from contextlib import contextmanager

import pytest

from testbed.lab import cloud
from testbed.lab.errors import LabError
from testbed.lab.lag_meter import MAX_RATIO, LagMeter
from testbed.lab.monitor import agent_status
from tests.lab.hosts import HOSTS, set_mode, table, wait_until_homed
from tests.lab.operators import host_conf, reconfigured
from tests.lab.stage import IMPATIENT, LAB, SOFT

WIDE, NARROW = ("vp3", "modelled:0-1/2-3"), ("vp4", "modelled:0/1")
"""Hosts of two cells. In the narrow one whoever shares a cell shares a CPU."""
AT_UPTIME_S = 70
BUSY, LATER = "compute", f"idle@until={AT_UPTIME_S},compute"
WAITING_RATIO = 0.05
"""`[policy] cpu_waiting_ratio`."""
WINDOW_S = 6.0
JUDGED_S = 25
"""A cap that is judged not to help is taken back within that time."""


@contextmanager
def a_host(admin, name, cells):
    command = [LAB, "up", *(f"--host={one}" for one in (*HOSTS, f"{name}={cells}"))]
    subprocess.run(command, check=True)
    try:
        with reconfigured(host_conf(name), IMPATIENT, f"vp-agent@{name}"):
            yield name
    finally:
        clear(admin, name)
        subprocess.run([LAB, "remove", name], check=True)


def clear(admin, host):
    here = admin.compute.servers(all_projects=True)
    cloud.delete(admin, *(server for server in here if server.compute_host == host))


@contextmanager
def a_cast(admin, host):
    """Whoever an act boots is gone after it."""
    set_mode(host, "advise")
    cast = Cast(admin, host)
    try:
        yield cast
    finally:
        cast.debt.close()
        clear(admin, host)


@pytest.fixture(scope="module")
def wide_host(admin):
    with a_host(admin, *WIDE) as host:
        yield host


@pytest.fixture
def cast(admin, wide_host):
    with a_cast(admin, wide_host) as cast:
        yield cast


@pytest.fixture
def narrow_cast(admin):
    with a_host(admin, *NARROW) as host, a_cast(admin, host) as cast:
        yield cast


class Cast:
    def __init__(self, admin, host):
        self._admin = admin
        self.host = host
        self.servers = {}
        self.debt = LagMeter(host)

    def boot(self, name, cell, work, specs=SOFT, **size):
        """A server, and the cell that it must be in."""
        flavor = cloud.put_flavor(self._admin, f"t.{name}", specs=dict(specs), **size)
        server = cloud.boot(self._admin, f"t-{name}", flavor, f"work={work}", host=self.host)
        self.servers[name] = server
        assert wait_until_homed(self.host, server.id) == cell, name

    def status(self):
        return agent_status(self.host)

    def act(self):
        set_mode(self.host, "enforce")

    def seen(self):
        """Of each server, by name, what the agent says."""
        by_uuid = {vp["uuid"]: vp for vp in self.status()["vps"]}
        return {name: by_uuid[server.id] for name, server in self.servers.items()}

    def is_paced(self):
        return self.debt.recent_ratio(WINDOW_S) <= MAX_RATIO

    def wait_until(self, is_so, what, deadline_s=180):
        """Of what the agent says while the machine keeps the modelled pace; what it says then."""

        def found():
            seen = self.seen()
            return seen if is_so(seen) and self.is_paced() else None

        try:
            return cloud.wait_for(found, what, deadline_s=deadline_s, interval_s=0.5)
        except LabError as exc:
            done = {name: deeds(vp) for name, vp in self.seen().items()}
            debt = self.debt.recent_ratio(WINDOW_S)
            raise LabError(f"{exc}; done: {done}; debt {debt:.0%}\n{table(self.host)}") from exc


def waiting(vp):
    return vp["cpu_use"]["waiting_ratio"] if vp["cpu_use"] else 0.0


def deeds(vp):
    """What was done to a server since it was homed, and what came of it."""
    return [
        (action["reason"], action["result"])
        for action in vp["actions"]
        if action["uuid"] == vp["uuid"] and action["reason"] != "home-on-arrival"
    ]


def three_on_two_cpus(cast):
    """Three who will compute on the two CPUs of one cell, and as many idle ones in the other."""
    for number in range(3):
        cast.boot(f"busy-{number}", 0, LATER)
        cast.boot(f"idle-{number}", 1, "idle")


def test_who_waits_is_moved_to_idle_cpus_and_nobody_else_is_changed(cast):
    three_on_two_cpus(cast)
    cast.act()

    def is_relieved(seen):
        done = [deed for vp in seen.values() for deed in deeds(vp)]
        return done == [("move-victim", "mended")] and max(map(waiting, seen.values())) < 0.05

    seen = cast.wait_until(is_relieved, "one of them to be moved, and nobody to wait")
    [moved] = [name for name, vp in seen.items() if deeds(vp)]
    assert moved.startswith("busy")
    assert seen[moved]["domains"] == [1]
    assert not any(vp["interference"] for vp in seen.values())


def test_where_all_cpus_are_in_use_the_cluster_is_asked_with_every_rung_spent(cast):
    """Three compute on the two CPUs of each cell: nobody has more than is fair."""
    for number in range(3):
        cast.boot(f"left-{number}", 0, LATER)
        cast.boot(f"right-{number}", 1, LATER)
    cast.act()

    def is_asked(seen):
        return any(one["kind"] == "cpu" for one in cast.status()["escalations"])

    cast.wait_until(is_asked, "an escalation")
    asked = [one for one in cast.status()["escalations"] if one["kind"] == "cpu"]
    for one in asked:
        why = {other["why"] for other in one["rejected"]}
        assert "no-free-cpu" in why, one
        assert {other["rung"] for other in one["rejected"]} >= {"move-vcpus", "cap"}, one
        assert not {reason for reason in why if "budget" in reason}, one
        assert one["evidence"]["measured_loss_ratio"] > 0.1
    assert not any(("cap-aggressor", "mended") in deeds(vp) for vp in cast.seen().values())


def test_the_throttling_of_who_is_capped_does_not_undo_the_cap_that_helps(narrow_cast):
    """Two share a CPU, and the one that waits is dearer; the other CPU is in use as well."""
    cast = narrow_cast
    cast.boot("filler", 0, LATER, specs={})
    cast.boot("storm", 1, LATER, specs={"vp:cpu_floor": "10"})
    cast.boot("lodger", 0, "idle")
    cast.boot("victim", 1, BUSY, specs={**SOFT, "vp:priority": "8"})
    cast.wait_until(lambda seen: seen["victim"]["state"] is not None, "what it is like alone")
    cast.act()

    def is_helped(seen):
        return ("cap-aggressor", "mended") in deeds(seen["storm"])

    seen = cast.wait_until(is_helped, "a cap that helps")
    [first, *_] = [one for one in seen["storm"]["actions"] if one["reason"] == "cap-aggressor"]
    at_s = cast.status()["at"]
    later = cast.wait_until(lambda _: cast.status()["at"] > at_s + JUDGED_S, "time to pass")
    storm = later["storm"]
    assert storm["cpu_use"]["throttled_ratio_ours"] > 0.02
    assert storm["cap"] != "none"
    assert {result for _, result in deeds(storm)} <= {"applied", "mended"}
    assert waiting(later["victim"]) < first["evidence"]["waiting_ratio"] - 0.05
