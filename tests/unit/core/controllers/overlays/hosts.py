# SPDX-License-Identifier: Apache-2.0
"""Hosts on which only `overlays` acts: two LLC domains of four CPUs, servers of two projects."""

import itertools

from nova_vp.core.types.cpu_time import CpuTimes
from nova_vp.core.types.knob import CpuWeight, EmulatorWeight, Knob, MemorySize
from nova_vp.core.types.overlay import (
    ArbitrationClass,
    Call,
    CallAnswer,
    CallResource,
    Direction,
    Nack,
    Overlay,
    Verb,
)
from tests.policies import a_policy
from tests.unit.core.build import COMPUTE, Host, nodes_of, uuid_of

WEIGHTS = frozenset({Knob.CPU_WEIGHT, Knob.EMULATOR_WEIGHT})
KNOBS = frozenset({Knob.PLACEMENT, Knob.CPU_CAP, *WEIGHTS, Knob.MEMORY_SIZE})
LOW, HIGH = {0, 1, 2, 3}, {4, 5, 6, 7}
MIB = 1024
NS = 1_000_000_000
_numbers = itertools.count()


def a_host(knobs: frozenset[Knob] = KNOBS, **settings: object) -> Host:
    policy = a_policy(controllers=("overlays",), **settings)
    return Host(nodes_of(0, 1, cpus=4), policy, knobs=knobs)


def server(host: Host, name: str, cpus: set[int] | None = None, **fields: object) -> str:
    told = {
        "cap_floor_ratio": 0.1,
        "cpu_weight": CpuWeight(100),
        "emulator_weight": EmulatorWeight(100),
        "vcpus": 2,
        "memory_size": MemorySize(96 * MIB),
        "memory_used_kib": 32 * MIB,
    }
    return host.add(name, COMPUTE, cpus=LOW if cpus is None else cpus, **{**told, **fields})


def overlay(host: Host, name: str, *members: str, **fields: object) -> str:
    host.overlays[name] = Overlay(
        name, name, "p1", frozenset(uuid_of(one) for one in members), **fields
    )
    return name


def two_shops(**settings: object) -> Host:
    """`web` and `db` are the shop's, `mill` is another overlay's, `alone` is nobody's."""
    host = a_host(**settings)
    for name in ("web", "db", "mill", "alone"):
        server(host, name)
    overlay(host, "shop", "web", "db")
    overlay(host, "mills", "mill")
    host.ticks(2)
    return host


def a_call(verb: Verb, of: str = "shop", server: str = "", **fields: object) -> Call:
    guest_uuid = uuid_of(server) if server else ""
    return Call(f"c{next(_numbers)}", of, verb, guest_uuid=guest_uuid, **fields)


def answer(host: Host, *calls: Call) -> list[Nack | None]:
    return [one.nack for one in answers(host, *calls)]


def answers(host: Host, *calls: Call) -> tuple[CallAnswer, ...]:
    return host.answer(*calls).answers


def tune(
    host: Host, server: str = "web", way: Direction = Direction.UP, of: str = "shop", **fields
) -> Nack | None:
    [nack] = answer(host, a_call(Verb.TUNE, of, server, direction=way, **fields))
    return nack


def resize(host: Host, server: str, way: Direction, of: str = "shop") -> Nack | None:
    return tune(host, server, way, of, resource=CallResource.MEMORY_SIZE)


def reweigh(host: Host, server: str, way: Direction, of: str = "shop") -> Nack | None:
    return tune(host, server, way, of, resource=CallResource.IO)


def trigger(host: Host, server: str = "", of: str = "shop", **fields: object) -> Nack | None:
    [nack] = answer(host, a_call(Verb.TRIGGER, of, server, **fields))
    return nack


def release(host: Host, server: str = "", of: str = "shop") -> Nack | None:
    [nack] = answer(host, a_call(Verb.RELEASE, of, server))
    return nack


def renew(host: Host, server: str = "", of: str = "shop", **fields: object) -> CallAnswer:
    [told] = answers(host, a_call(Verb.RENEW, of, server, **fields))
    return told


def borrow(
    host: Host, server: str = "web", cpus: int = 1, of: str = "shop", **fields: object
) -> Nack | None:
    [nack] = answer(host, a_call(Verb.BORROW, of, server, cpus=cpus, **fields))
    return nack


def weight(host: Host, name: str) -> int:
    return host.guest(name).cpu_weight.number


def wait_for_cpu(host: Host, name: str, ratio: float, cores: float = 1.0) -> None:
    """In the second to come it waits for this share of the CPU that it wants, so many cores."""
    before = host.guest(name).cpu_times or CpuTimes(0, 0, 0, "1")
    now = CpuTimes(
        before.ran_ns + round((1 - ratio) * cores * NS),
        before.run_delay_ns + round(ratio * cores * NS),
        0,
        "1",
    )
    host.change(name, cpu_times=now)


UP, DOWN = Direction.UP, Direction.DOWN
ROUND_ROBIN = ArbitrationClass.ROUND_ROBIN
