# SPDX-License-Identifier: Apache-2.0
"""Inside a host: `python -m tests.lab.hold SERVER=ACTUATOR ...` pins and caps servers, by the hands
of the agent, in the journal of the run that lives there, so that its agent takes them for its own.

Who would have wanted it does not matter to what becomes of it. Prints one line per server.
"""

import sys
import time

from oslo_config import cfg

from nova_vp import conf as options
from nova_vp.core.controllers.vp.declaration import CAP as CAP_AGGRESSOR
from nova_vp.core.types.action import Action, Change
from nova_vp.core.types.claim import PredictedLoss
from nova_vp.core.types.knob import Cpus, Knob, Quota, Value
from vp_agent import wiring
from vp_agent.loop.executor import Executor
from vp_agent.loop.state import StateFolder

CONFIG = "/etc/nova-vp/nova-vp.conf"
PIN: Cpus = (frozenset({0}),)
CAP = Quota(50_000, 100_000)
LEASE_S = 900.0
_NO_LOSS = PredictedLoss(0.0, 0.0)


def main() -> None:
    wanted = dict(word.split("=") for word in sys.argv[1:])
    options.register_all(cfg.CONF)
    cfg.CONF(["--config-file", CONFIG])
    epoch = StateFolder(cfg.CONF.agent.state_directory).last_epoch()
    for uuid, actuator in wanted.items():
        cfg.CONF.set_override("actuator", actuator, group="agent")
        hold(uuid, epoch)


def hold(uuid: str, epoch: int) -> None:
    side = wiring.libvirt_side(cfg.CONF, undoes_only=True)
    now_s = time.monotonic()
    settings: tuple[tuple[Knob, Value], ...] = ((Knob.PLACEMENT, PIN), (Knob.CPU_CAP, CAP))
    changes = []
    for knob, value in settings:
        found = side.actuator.read(uuid, knob)
        changes.append(Change(uuid, knob, value, found, found, now_s + LEASE_S))
    action = Action("held", "vp", uuid, tuple(changes), (), CAP_AGGRESSOR, now_s, _NO_LOSS)
    [outcome] = Executor(side.journal, side.actuators, epoch).apply([action], now_s)
    print(uuid, side.actuator.name, outcome.result.value, outcome.detail)
    side.close()


if __name__ == "__main__":
    main()
