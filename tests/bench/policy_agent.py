# SPDX-License-Identifier: Apache-2.0
"""A policy of the simulator on a real host: through the agent's drivers, in the agent's place.

`python -m tests.bench.policy_agent POLICY READY CONFIG`: looks at the host once per period of the
policy, which is shortened, since the guests of a benchmark hold still. READY appears when it has
looked for the first time. Nothing is journalled or given back: whoever started it deals anew.
"""

import signal
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import NamedTuple

from oslo_config import cfg

from nova_vp import conf as options
from nova_vp.core.types.guest import MemoryMove
from nova_vp.core.types.knob import Knob, Value
from vp_agent import wiring
from vp_agent.drivers.base import Actuator, CountersDriver, GuestsDriver, Journal
from vp_sim.policies import find

POLICY_PERIOD_S, PERIOD_S = 60.0, 5.0
SEED = 1


class OneNode:
    """The actuator of a host whose memory can be nowhere else."""

    def __init__(self, actuator: Actuator, node: int) -> None:
        self._actuator = actuator
        self._node = node

    def read(self, guest_uuid: str, knob: Knob) -> Value:
        if knob is Knob.MEMORY:
            return ((self._node, 1.0),)
        return self._actuator.read(guest_uuid, knob)

    def apply(self, guest_uuid: str, knob: Knob, value: Value) -> None:
        self._actuator.apply(guest_uuid, knob, value)

    def moves(self) -> Mapping[str, MemoryMove]:
        return {}


class Seams(NamedTuple):
    guests: GuestsDriver
    counters: CountersDriver
    journal: Journal
    actuator: OneNode


def run(policy: str, ready: Path, config: str) -> None:
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    conf = cfg.CONF
    options.register_all(conf)
    conf(["--config-file", config], project="nova-vp")
    side = wiring.libvirt_side(conf)
    counters = wiring.counters(conf, side.connection).driver
    (node,) = side.guests.topology().nodes
    drivers = Seams(side.guests, counters, side.journal, OneNode(side.actuator, node))
    decide = find((policy,))[policy](drivers, Random(SEED))  # type: ignore[arg-type]
    now_s = 0.0
    while True:
        side.guests.read()
        decide.tick(now_s)
        ready.touch()
        now_s += POLICY_PERIOD_S
        if stop.wait(PERIOD_S):
            return


if __name__ == "__main__":
    run(sys.argv[1], Path(sys.argv[2]), sys.argv[3])
