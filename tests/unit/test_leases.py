# SPDX-License-Identifier: Apache-2.0
"""Leases and owners, knob by knob: what is renewed, what runs out, what somebody else took over."""

from dataclasses import replace

import pytest

from nova_vp.core.types.action import Change, Renewal, Result
from nova_vp.core.types.guest import Unmanaged
from nova_vp.core.types.knob import NO_QUOTA, Applied, CpuWeight, Held, Knob, Quota
from nova_vp.service.run_dir import boot_clock_s
from tests.decisions import an_action
from tests.unit.agent_host import World
from tests.unit.core.build import COMPUTE
from vp_agent.cli.release import Release
from vp_agent.drivers.fake import FakeActuator, FakeGuests, FakeHost, FakeJournal
from vp_agent.loop import control_socket
from vp_agent.loop.control_socket import RunFolder
from vp_agent.loop.executor import Executor, over
from vp_agent.wiring import by_knob

CAP = Quota(90_000, 100_000)
TIGHTER = Quota(80_000, 100_000)
CORNER = frozenset({1})
NOW_S = 5000.0


@pytest.fixture
def host() -> FakeHost:
    return FakeHost()


@pytest.fixture
def executor(host) -> Executor:
    return Executor(FakeJournal(host), by_knob(FakeActuator(host)), epoch=3)


def capping(uuid, to=CAP, now=NO_QUOTA, until_s=NOW_S + 60):
    change = Change(uuid, Knob.CPU_CAP, to=to, now=now, original=NO_QUOTA, until_s=until_s)
    return an_action(guest_uuid=uuid, changes=(change,))


def capped(uuid, until_s) -> Held:
    return Held(Knob.CPU_CAP, CAP, NO_QUOTA, "vp", "vp-1", until_s)


def weighed():
    return Held(Knob.CPU_WEIGHT, CpuWeight(400), CpuWeight(100), "vp", "vp-3")


def placed(host) -> Held:
    return Held(Knob.PLACEMENT, (CORNER,), (host.topology.cpus,), "vp", "vp-2")


def hold(host, *held) -> str:
    """A guest on which all of this is applied and journalled."""
    uuid = host.boot()
    host.guests[uuid].journal = Applied(uuid, 3, held)
    for one in held:
        FakeActuator(host).apply(uuid, one.knob, one.value)
    return uuid


def quota(host, uuid):
    return host.guests[uuid].guest.quota


def apply(executor, *actions):
    return [outcome.result for outcome in executor.apply(actions, NOW_S)]


def test_a_renewed_lease_is_written_and_the_host_is_not_touched(host, executor):
    uuid = host.boot()
    assert apply(executor, capping(uuid)) == [Result.APPLIED]
    touched = []
    executor._actuators = dict.fromkeys(executor._actuators, _Noting(FakeActuator(host), touched))
    executor.renew([Renewal(uuid, Knob.CPU_CAP, NOW_S + 90)])
    assert host.guests[uuid].journal.of(Knob.CPU_CAP).until_s == NOW_S + 90
    assert touched == []
    assert apply(executor, capping(uuid, to=TIGHTER, now=CAP)) == [Result.APPLIED]
    assert (quota(host, uuid), touched) == (TIGHTER, ["apply"])


class _Noting:
    def __init__(self, actuator, touched) -> None:
        self._actuator, self._touched = actuator, touched

    def __getattr__(self, name):
        if name in ("apply", "restore"):
            self._touched.append(name)
        return getattr(self._actuator, name)


def test_a_cap_that_the_host_lost_is_applied_anew_with_its_lease(host, executor):
    uuid = host.boot()
    apply(executor, capping(uuid))
    host.change(uuid, quota=NO_QUOTA)
    assert apply(executor, capping(uuid, until_s=NOW_S + 90)) == [Result.APPLIED]
    assert quota(host, uuid) == CAP


@pytest.mark.parametrize(("until_s", "is_over"), [(None, False), (99.9, True), (100.1, False)])
def test_what_is_over(until_s, is_over):
    held = capped("u", until_s)
    other = Held(Knob.PLACEMENT, (CORNER,), (CORNER,), "vp", "vp-2")
    assert over(Applied("u", 3, (held, other)), 100.0).held == ((held,) if is_over else ())


def test_only_what_was_not_renewed_goes_back(host, executor):
    lapsed = hold(host, placed(host), capped("", NOW_S - 1))
    standing = hold(host, capped("", NOW_S + 1))
    assert executor.expire_leases(NOW_S) == (lapsed,)
    assert (quota(host, lapsed), quota(host, standing)) == (NO_QUOTA, CAP)
    assert host.guests[lapsed].guest.placement == CORNER
    assert host.guests[lapsed].journal.held == (placed(host),)


def test_a_tick_that_comes_too_late_begins_by_giving_back(tmp_path):
    world = World(tmp_path / "state")
    agent = world.start_agent()
    uuid = world.boot(COMPUTE)
    held = capped(uuid, world.now_s + 0.5)
    FakeActuator(world.host).apply(uuid, Knob.CPU_CAP, CAP)
    world.host.guests[uuid].journal = Applied(uuid, agent._host.epoch, (held,))
    world.tick()
    assert quota(world.host, uuid) == NO_QUOTA


BY_HAND = {
    "placement": frozenset({2, 3}),
    "quota": Quota(30_000, 100_000),
    "cpu_weight": CpuWeight(77),
}


@pytest.mark.parametrize("theirs", BY_HAND)
def test_what_somebody_changed_stays_and_the_rest_goes_back(host, executor, theirs):
    uuid = hold(host, placed(host), capped("", NOW_S + 60), weighed())
    host.change(uuid, **{theirs: BY_HAND[theirs]})
    executor.drop_foreign((uuid,))
    given = {"placement": host.topology.cpus, "quota": NO_QUOTA, "cpu_weight": CpuWeight(100)}
    guest = host.guests[uuid].guest
    found = {name: getattr(guest, name) for name in BY_HAND}
    assert found == {**given, theirs: BY_HAND[theirs]}
    assert host.guests[uuid].journal is None


def test_a_cap_that_could_not_be_taken_back_is_not_taken_for_somebody_elses(host, executor):
    """libvirtd went in the middle of a step: what stands may be the value before it."""
    uuid = host.boot()
    apply(executor, capping(uuid))
    host.guests[uuid].journal = Applied(uuid, 3, (replace(capped(uuid, NOW_S), value=TIGHTER),))
    executor.drop_foreign((uuid,))
    assert quota(host, uuid) == NO_QUOTA
    assert host.guests[uuid].journal is None


def test_a_quota_set_by_hand_is_respected_and_reported(tmp_path):
    world = World(tmp_path / "state")
    agent = world.start_agent()
    uuid = world.boot(COMPUTE)
    by_hand = Quota(30_000, 100_000)
    FakeActuator(world.host).apply(uuid, Knob.CPU_CAP, by_hand)
    entry = Applied(uuid, agent._host.epoch, (capped(uuid, world.now_s + 600),))
    world.host.guests[uuid].journal = entry
    decision = world.tick(3)
    assert quota(world.host, uuid) == by_hand
    assert decision.vps[0].guest.unmanaged is Unmanaged.FOREIGN_CHANGE
    assert world.host.guests[uuid].journal is None
    agent.give_back(waits=True)
    assert quota(world.host, uuid) == by_hand


def test_a_weight_set_by_hand_is_respected_and_reported(tmp_path):
    world = World(tmp_path / "state")
    agent = world.start_agent()
    uuid = world.boot(COMPUTE)
    world.host.guests[uuid].journal = Applied(uuid, agent._host.epoch, (weighed(),))
    world.host.change(uuid, cpu_weight=CpuWeight(77))
    decision = world.tick()
    assert decision.foreign == (uuid,)
    assert world.host.guests[uuid].guest.cpu_weight == CpuWeight(77)
    assert world.host.guests[uuid].journal is None
    agent.give_back(waits=True)
    assert world.host.guests[uuid].guest.cpu_weight == CpuWeight(77)


def released(host, executor, folder, now_s=NOW_S):
    journal = FakeJournal(host)
    return Release(folder, FakeGuests(host), journal, executor, (3,), lambda: now_s).expired()


def test_under_a_living_agent_only_leases_run_out(host, executor, tmp_path):
    uuid = hold(host, placed(host), capped("", NOW_S))
    folder = RunFolder(str(tmp_path))
    with folder.locked():
        folder.beat()
        assert "nothing has expired" in released(host, executor, folder, NOW_S - 1).note
        assert quota(host, uuid) == CAP
        assert released(host, executor, folder).restored == (uuid,)
        assert quota(host, uuid) == NO_QUOTA
        assert host.guests[uuid].guest.placement == CORNER


def test_of_a_dead_agent_nothing_is_left_to_look_for(host, executor, tmp_path):
    """The heartbeat goes last: whoever finds a stale one still has something to do."""
    uuid = hold(host, placed(host), capped("", NOW_S + 60))
    host.guests[uuid].refuses = "not now"
    folder = RunFolder(str(tmp_path))
    with folder.locked():
        folder.beat()
    assert released(host, executor, folder).failed == (uuid,)
    assert (tmp_path / "agent.alive").exists()
    host.guests[uuid] = replace(host.guests[uuid], refuses="")
    assert released(host, executor, folder).restored == (uuid,)
    assert quota(host, uuid) == NO_QUOTA
    assert not (tmp_path / "agent.alive").exists()


def test_while_somebody_arrives_there_is_something_to_look_for(host, executor, tmp_path):
    uuid = host.boot(unmanaged=Unmanaged.MIGRATING)
    folder = RunFolder(str(tmp_path))
    with folder.locked():
        folder.beat()
    released(host, executor, folder)
    assert (tmp_path / "agent.alive").exists()
    host.change(uuid, unmanaged=None)
    released(host, executor, folder)
    assert not (tmp_path / "agent.alive").exists()


def test_who_the_hook_saw_coming_may_not_be_there_yet(host, executor, tmp_path, monkeypatch):
    beat = tmp_path / "agent.alive"
    beat.write_text(f"0 {boot_clock_s():.6f}\n")
    folder = RunFolder(str(tmp_path))
    released(host, executor, folder)
    assert beat.exists()
    monkeypatch.setattr(control_socket, "ASKED_S", 0.0)
    released(host, executor, folder)
    assert not beat.exists()
