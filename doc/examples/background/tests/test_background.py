# SPDX-License-Identifier: Apache-2.0
"""The controller alone, in the core's own steps: no host, no clock."""

from dataclasses import replace

import pytest
from nova_vp_background.controller import LIMIT, Background, BackgroundSettings

from nova_vp.core.pipeline.confirm import confirm
from nova_vp.core.step import step
from nova_vp.core.types.action import Action, Outcome, Result
from nova_vp.core.types.guest import Guest
from nova_vp.core.types.knob import Applied, Held, Knob, LlcShare, Quota
from nova_vp.core.types.picture import Picture
from nova_vp.core.types.policy import Enabled, Mode, Policy
from nova_vp.core.types.sample import Reading
from nova_vp.core.types.state import CoreState
from nova_vp.core.types.topology import LlcDomain, Topology

CPUS = frozenset({0, 1})


def a_guest(uuid: str, **about: object) -> Guest:
    given = {"cap_floor_ratio": 0.3, **about}
    return Guest(uuid, uuid, uuid, "p", "f", 1, 1024, CPUS, CPUS, 0, "1")._replace(**given)


class Host:
    """A busy server and a background server. What is decided is done."""

    def __init__(self, knobs: frozenset[Knob] = frozenset({Knob.CPU_CAP, Knob.LLC})) -> None:
        batch = a_guest("batch", controller_keys=(("vp:background", "yes"),))
        self.guests = {"web": a_guest("web"), "batch": batch}
        self.cores = {"web": 0.8, "batch": 1.0}
        self.knobs = knobs
        self.now_s, self.state, self.applied = 0.0, CoreState(), {}
        self.policy = Policy(controllers=(Enabled(Background(), BackgroundSettings()),))

    def tick(self) -> tuple[Action, ...]:
        self.now_s += 1
        for uuid, guest in self.guests.items():
            used_ns = round(self.cores[uuid] * 1e9)
            self.guests[uuid] = guest._replace(cpu_time_ns=guest.cpu_time_ns + used_ns)
        count = round(self.now_s * 1e9)
        reading = Reading(count, count, 0, 0, 0, 1, 1.0, "1", (count,))
        picture = Picture(
            at_s=self.now_s,
            mode=Mode.ENFORCE,
            topology=Topology((LlcDomain(0, 0, CPUS),)),
            guests=tuple(self.guests.values()),
            readings=dict.fromkeys(self.guests, reading),
            applied=self.applied,
            knobs=self.knobs,
        )
        self.state, decision = step(self.state, picture, self.policy)
        outcomes = [self._apply(action) for action in decision.actions]
        self.state = confirm(self.state, outcomes, self.policy)
        return decision.actions

    def _apply(self, action: Action) -> Outcome:
        for change in action.changes:
            field = {Knob.CPU_CAP: "quota", Knob.LLC: "llc"}[change.knob]
            uuid = change.guest_uuid
            self.guests[uuid] = self.guests[uuid]._replace(**{field: change.to})
            left = self.applied.get(uuid, Applied(uuid, 1)).without(change.knob)
            held = Held(change.knob, change.to, change.original, action.controller, action.id)
            self.applied[uuid] = left if change.is_restoring else left.holding(held)
        return Outcome(action, Result.APPLIED, self.now_s)

    def limits(self) -> tuple[Quota, LlcShare]:
        return self.guests["batch"].quota, self.guests["batch"].llc


def test_a_background_server_is_limited_while_another_one_is_busy() -> None:
    host = Host()
    actions = [action for _ in range(5) for action in host.tick()]
    assert [(one.guest_uuid, one.reason) for one in actions] == [("batch", LIMIT)]
    assert host.limits() == (Quota(50_000), LlcShare(0.25))


def test_its_limits_go_once_nobody_was_busy_for_a_while() -> None:
    host = Host()
    for _ in range(5):
        host.tick()
    host.cores["web"] = 0.1
    for _ in range(30):
        host.tick()
    assert host.limits() == (Quota(50_000), LlcShare(0.25))
    host.tick()
    assert host.limits() == (Quota(), LlcShare())


@pytest.mark.parametrize("about", [{"is_running": False}, {"controller_keys": ()}])
def test_who_is_stopped_or_no_background_server_is_not_limited(about: dict[str, object]) -> None:
    host = Host()
    host.guests["batch"] = host.guests["batch"]._replace(**about)
    assert [host.tick() for _ in range(3)] == [()] * 3


def test_background_servers_alone_are_not_limited() -> None:
    host = Host()
    del host.guests["web"]
    assert [host.tick() for _ in range(3)] == [()] * 3


def test_where_the_cache_cannot_be_partitioned_the_cpu_is_capped() -> None:
    host = Host(frozenset({Knob.CPU_CAP}))
    for _ in range(3):
        host.tick()
    assert host.limits() == (Quota(50_000), LlcShare())


def test_the_floor_of_the_flavor_applies() -> None:
    host = Host()
    host.guests["batch"] = host.guests["batch"]._replace(cap_floor_ratio=0.7)
    for _ in range(3):
        host.tick()
    assert host.limits()[0] == Quota(70_000)


def test_the_operators_numbers_apply() -> None:
    host = Host()
    settings = BackgroundSettings(busy_ratio=0.9, cap_ratio=0.4)
    host.policy = replace(host.policy, controllers=(Enabled(Background(), settings),))
    assert [host.tick() for _ in range(3)] == [()] * 3
    host.cores["web"] = 0.95
    host.tick()
    assert host.limits()[0] == Quota(40_000)
