# SPDX-License-Identifier: Apache-2.0
"""Files that an agent reads: its state folder, recordings, its configuration; torn, foreign, huge.

What cannot be read is absent, and said; what is taken is of the types and within the bounds that
the core relies on.
"""

import json
from functools import cache
from pathlib import Path
from typing import Any

from oslo_config import cfg

from nova_vp import conf as options
from nova_vp.conf import policy
from nova_vp.core.model.miss_cost import miss_cycles
from nova_vp.core.types.policy import Mode, Policy
from nova_vp.core.types.sample import MissCost, Profile
from nova_vp.core.types.state import CoreState
from nova_vp.recording.file_format import (
    Header,
    LineWriter,
    NotARecording,
    Section,
    Tick,
    answered,
    read,
    told,
)
from tests.decisions import PROFILE
from tests.fuzz import seeds
from tests.fuzz.core import GUESTS, a_host, live, remembering
from tests.fuzz.dice import ODD_TEXTS, UUIDS, Dice
from tests.fuzz.oracle import expect, is_finite
from tests.fuzz.subject import ACCEPTED, REFUSED
from tests.unit.core.build import Host
from vp_agent.calibration.record import Calibration
from vp_agent.loop.control_socket import RunFolder
from vp_agent.loop.overrides import CLOUD, LOCAL, ServerOverrides
from vp_agent.loop.state import StateFolder
from vp_agent.publish.outbox import Outbox
from vp_scheduler.escalation import settings as escalation_settings

EPOCH, MODE, BEAT = "epoch", "mode", "agent.alive"
PROFILES, LIMITS, ESCALATIONS = "profiles.json", "limits.json", "escalations.json"
MISS_COSTS = "miss_costs.json"
MISS_COST = MissCost(60.0, 30.0, 10.0, 2.5, 400.0, 20.0, 2.0)
NOW_S = 1000.0


@cache
def _contents() -> dict[str, Any]:
    """As the agent writes them: a text, or what its JSON says."""
    escalation = {
        "id": "99999999-9999-5999-8999-999999999999",
        "victim": UUIDS[0],
        "kind": "cache",
        "text": "{}",
        "is_acknowledged": False,
        "is_spent": False,
    }
    row = PROFILE._asdict() | {
        "state": 1,
        "sensitivity": PROFILE.sensitivity._asdict(),
        "pressures": {UUIDS[1]: 2e6},
    }
    limits = {"node_misses_per_s": 1e8, "link_misses_per_s": None, "remote_penalty_ratio": 1.4}
    overrides = seeds.overrides(Dice("overrides", 1))
    return {
        EPOCH: "1790000000000 1780000000000",
        MODE: "enforce",
        BEAT: f"{1234.5:020.6f}\n",
        PROFILES: {uuid: row for uuid in UUIDS[:3]},
        MISS_COSTS: {"at": NOW_S, "servers": {uuid: [*MISS_COST] for uuid in UUIDS[:3]}},
        LIMITS: {**limits, "at": 1.8e9, "how": "measured"},
        ESCALATIONS: {"v": 1, "escalations": [escalation, escalation]},
        CLOUD: overrides,
        LOCAL: overrides,
    }


class StateFiles:
    name, weight = "state-files", 6

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "files"
        self._folder.mkdir()

    def make(self, dice: Dice) -> Any:
        name = dice.pick((*_contents(), PROFILES))
        content = _contents()[name]
        if isinstance(content, str):
            content = dice.pick((*ODD_TEXTS, "9" * 5000, dice.torn_text(content)))
        else:
            content = dice.json_text(dice.bent(content))
        data = content.encode("utf-8", "surrogatepass")
        return [name, dice.torn(data) if dice.is_so(0.15) else data]

    def take(self, payload: Any) -> str:
        name, data = payload
        path = self._folder / name
        path.write_bytes(data)
        try:
            return ACCEPTED if self._read(name) else REFUSED
        finally:
            path.unlink()

    def _read(self, name: str) -> bool:
        state = StateFolder(str(self._folder))
        if name == EPOCH:
            return 0 < state.last_epoch() < state.next_epoch() <= 2**53
        if name == MODE:
            return state.mode(Mode.OBSERVE) is not Mode.OBSERVE
        if name == BEAT:
            silent_s = RunFolder(str(self._folder)).silent_for_s()
            expect(silent_s is None or silent_s >= 0, f"silent for {silent_s}")
            return silent_s is not None
        if name == PROFILES:
            profiles = state.profiles()
            _check_profiles(profiles)
            return bool(profiles)
        if name == MISS_COSTS:
            costs = state.miss_costs(NOW_S)
            _check_miss_costs(costs)
            return bool(costs)
        if name == LIMITS:
            return _check_calibration(state.calibration())
        if name == ESCALATIONS:
            return _use_outbox(state)
        book = ServerOverrides(state)
        json.dumps(book.rows())
        return bool(book.rows())

    def settle(self) -> None:
        """Nothing is left."""


def _check_profiles(profiles: dict[str, Profile]) -> None:
    for uuid, profile in profiles.items():
        others = (profile.state, profile.sensitivity, profile.pressures)
        numbers = [value for value in profile if not any(value is one for one in others)]
        expect(all(map(is_finite, numbers)), f"{uuid}: {profile}")
        expect(type(profile.samples) is int, f"{profile.samples} samples")
        expect(all(map(is_finite, profile.pressures.values())), f"{profile.pressures}")
        flags = {type(one) for one in profile.sensitivity}
        expect(flags == {bool}, f"sensitivity of {flags}")
    if profiles:
        live(remembering(a_host(), profiles))


def _check_miss_costs(costs: dict[str, MissCost]) -> None:
    for uuid, cost in costs.items():
        expect(all(map(is_finite, cost)), f"{uuid}: {cost}")
        cycles = miss_cycles(cost, Policy())
        expect(0 < cycles < 10 * Policy().miss_penalty_cycles, f"a miss costs {cycles} cycles")
    if costs:
        host = a_host()
        host.state = CoreState(miss_costs=dict(zip(GUESTS, costs.values(), strict=False)))
        live(host)


def _check_calibration(found: Calibration | None) -> bool:
    if found is None:
        return False
    limits = found.limits
    for value in (limits.node_misses_per_s, limits.link_misses_per_s, limits.remote_penalty_ratio):
        expect(value is None or (is_finite(value) and value > 0), f"{limits}")
    host = a_host()
    host.limits = limits
    live(host)
    return True


def _use_outbox(state: StateFolder) -> bool:
    outbox = Outbox(state.escalations, state.set_escalations, NOW_S)
    hurt = {(one.victim, one.kind) for one in outbox._entries.values()}
    outbox.see(hurt, NOW_S)
    for entry in outbox.waiting():
        outbox.acknowledge(entry.id)
    was = len(outbox)
    outbox.forget_ended(NOW_S + 10_000)
    expect(len(outbox) == 0, "an escalation stands for ever")
    return was > 0


class Recordings:
    name, weight = "recordings", 2

    def make(self, dice: Dice) -> Any:
        lines = list(_recorded())
        at = dice.randint(0, len(lines) - 1)
        lines[at] = dice.json_text(dice.bent(json.loads(lines[at]))) + "\n"
        if dice.is_so(0.2):
            dice.shuffle(lines)
        text = "".join(lines)
        return dice.torn_text(text) if dice.is_so(0.15) else text

    def take(self, payload: Any) -> str:
        try:
            sections = list(read(payload.splitlines(keepends=True)))
        except NotARecording:
            return REFUSED
        for section in sections:
            _check_section(section)
        return ACCEPTED

    def settle(self) -> None:
        """Nothing is left."""


def _check_section(section: Section) -> None:
    """Written again it says the same."""
    writer = LineWriter()
    lines = [writer.header(section.header), *map(writer.tick, section.ticks)]
    (again,) = read(lines)
    back = LineWriter()
    expect(lines == [back.header(again.header), *map(back.tick, again.ticks)], "it reads otherwise")


@cache
def _recorded() -> tuple[str, ...]:
    host, writer = a_host(), LineWriter()
    lines = [writer.header(Header("vp1", 1.8e9, host.policy, host.state))]
    for _ in range(6):
        host.pass_time(1.0)
        seen = len(host.outcomes)
        picture = host.picture()
        decision = host.decide()
        lines.append(writer.tick(Tick(picture, answered(host.outcomes[seen:]), told(decision))))
    return tuple(lines)


class Configuration:
    name, weight = "configuration", 1

    def __init__(self, folder: Path) -> None:
        self._path = folder / "nova-vp.conf"

    def make(self, dice: Dice) -> Any:
        known = [(group, opt) for group, opts in options.list_opts() for opt in opts]
        lines = []
        for _ in range(dice.randint(1, 3)):
            group, opt = dice.pick(known)
            usual = (opt.default, f"{opt.default}1", dice.randint(-1, 10), round(dice.random(), 2))
            value = dice.pick((*usual, *usual, dice.pick(ODD_TEXTS), str(dice.odd())[:200]))
            lines += [f"[{group}]", f"{opt.name} = {value}"]
        text = "\n".join(lines)
        return dice.torn_text(text) if dice.is_so(0.1) else text

    def take(self, payload: Any) -> str:
        self._path.write_text(payload, encoding="utf-8", errors="replace")
        conf = cfg.ConfigOpts()
        options.register_all(conf)
        try:
            conf(["--config-file", str(self._path)], default_config_dirs=[])
            options.check(conf)
            policy.policy_from(conf)
            escalation_settings.read(conf)
        except cfg.Error:
            return REFUSED
        live(_obeying(conf))
        return ACCEPTED

    def settle(self) -> None:
        """Nothing is left."""


def _obeying(conf: cfg.ConfigOpts) -> Host:
    host = a_host()
    host.policy = policy.policy_from(conf)
    return host
