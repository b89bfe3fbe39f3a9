# SPDX-License-Identifier: Apache-2.0
"""An agent on the host in memory with the controllers of a configuration file, as a program: what a
background server had while another one was busy, afterwards, and once the agent stopped."""

import json
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from oslo_config import cfg

from nova_vp.conf import policy
from nova_vp.core.types.knob import Held, Knob, Value
from tests.unit.agent_host import World
from tests.unit.core.build import COMPUTE
from vp_agent.drivers.fake import FakeActuator, FakeHost
from vp_agent.drivers.fake_partition import FakePartitions


@dataclass(frozen=True)
class Everything:
    """An actuator that turns CPUs, caps and shares of the cache."""

    cpus: FakeActuator
    caches: FakePartitions
    name: str = "everything"

    @property
    def knobs(self) -> frozenset[Knob]:
        return self.cpus.knobs | self.caches.knobs

    def _of(self, knob: Knob) -> FakeActuator | FakePartitions:
        return self.caches if knob in self.caches.knobs else self.cpus

    def read(self, guest_uuid: str, knob: Knob) -> Value:
        return self._of(knob).read(guest_uuid, knob)

    def apply(self, guest_uuid: str, knob: Knob, value: Value) -> None:
        self._of(knob).apply(guest_uuid, knob, value)

    def restore(self, guest_uuid: str, held: Held) -> None:
        self._of(held.knob).restore(guest_uuid, held)


def main(config: str, folder: str) -> None:
    conf = cfg.ConfigOpts()
    policy.register_opts(conf)
    conf([f"--config-file={config}"])
    host = FakeHost()
    world = World(Path(folder) / "state", host, policy=policy.policy_from(conf))
    world.start_agent(actuator=Everything(FakeActuator(host), FakePartitions(host)))
    world.recorder.start(str(Path(folder) / "tape"))
    busy = world.boot(COMPUTE)
    limited = world.boot(COMPUTE, cap_floor_ratio=0.1, controller_keys=(("vp:background", "yes"),))

    def run(seconds: int, cores: float) -> dict[str, Any]:
        for _ in range(seconds):
            for uuid, used in ((busy, cores), (limited, 1.0)):
                before = host.guests[uuid].guest.cpu_time_ns
                host.change(uuid, cpu_time_ns=before + round(used * 1e9))
            world.tick()
        return seen()

    def seen() -> dict[str, Any]:
        guests = {name: host.guests[uuid].guest for name, uuid in names.items()}
        return {name: [one.quota.cores, one.llc.ratio] for name, one in guests.items()}

    names = {"busy": busy, "limited": limited}
    found = {"while busy": run(5, 0.9), "afterwards": run(10, 0.1), "busy again": run(70, 0.9)}
    stop = threading.Event()
    stop.set()
    world.agent.run(stop, 1.0, lambda: None, lambda: None)
    world.recorder.close()
    found["stopped"] = seen()
    reasons = [outcome.action.reason.code for outcome in world.heard.outcomes]
    print(json.dumps({**found, "reasons": reasons}))


if __name__ == "__main__":
    main(*sys.argv[1:])
