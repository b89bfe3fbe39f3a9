# SPDX-License-Identifier: Apache-2.0
"""An agent that bills, as a process that can be killed: real loop, core, state directory and bus.

`python -m tests.metered_agent CONFIGURATION HOST FOLDER SERVER PROJECT`. Its host is in memory,
with that server. A line of standard input is a second: when it ended by both clocks, and how often
the server missed in it. Or it is `leave`, of the server, or `saved`. Each is answered once the
agent has ticked, or has written down what it has counted.
"""

import json
import sys
from pathlib import Path
from types import SimpleNamespace

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from oslo_config import cfg
from oslo_service import backend

backend.init_backend(backend.BackendType.THREADING)

from nova_vp import conf as options  # noqa: E402
from nova_vp import rpctransport  # noqa: E402
from nova_vp.core.types.policy import Mode  # noqa: E402
from nova_vp.signing.identity import Identity  # noqa: E402
from nova_vp.signing.keyring import private_key_file, read_private_key  # noqa: E402
from nova_vp.signing.senders import Process, Sender  # noqa: E402
from tests.decisions import facts  # noqa: E402
from tests.policies import a_policy  # noqa: E402
from tests.unit.agent_host import World  # noqa: E402
from tests.unit.core.build import COMPUTE  # noqa: E402
from tests.waiting import wait_until  # noqa: E402
from vp_agent.drivers.counters_fake import VcpuCounts  # noqa: E402
from vp_agent.loop.migration_holds import MigrationHolds  # noqa: E402
from vp_agent.loop.state import StateFolder  # noqa: E402
from vp_agent.loop.tick import Cluster  # noqa: E402
from vp_agent.publish.asking_bus import BusEscalations, BusUsage  # noqa: E402
from vp_agent.publish.escalator import Escalator  # noqa: E402
from vp_agent.publish.outbox import Outbox  # noqa: E402
from vp_agent.publish.usage_log import UsageLog  # noqa: E402
from vp_agent.publish.usage_sender import UsageSender  # noqa: E402

FLUSH_S, INTERVAL_S, CALL_TIMEOUT_S = 0.005, 0.2, 3
PERMIT = 900
INSTRUCTIONS = 10**9
"""Of each second."""


class NoRates:
    """Nobody escalates here."""

    def measure(self, guest_uuids: object, stop: object) -> dict[str, float]:
        return {}

    def close(self) -> None:
        """Nothing is open."""


class OneKey:
    """Everybody signs with the same."""

    def __init__(self, folder: Path) -> None:
        self._key = read_private_key(private_key_file(folder, Process.AGENT)).public_key()

    def of(self, sender: Sender) -> tuple[Ed25519PublicKey]:
        return (self._key,)


def main(file: str, host: str, folder: str, server: str, project_id: str) -> None:
    rpctransport.CALL_TIMEOUT_S = CALL_TIMEOUT_S
    conf = cfg.CONF
    options.register_all(conf)
    conf(["--config-file", file], project="nova-vp")
    identity = Identity(conf, Process.AGENT, lambda: OneKey(Path(conf.bus.keys_directory)), host)
    state, clock = StateFolder(folder), SimpleNamespace(epoch_s=0.0)
    epoch = state.next_epoch()
    log = UsageLog(state.usage, state.set_usage, epoch)
    sender = BusUsage(identity)
    usage = UsageSender(log, sender, host, FLUSH_S, INTERVAL_S, wall_clock=lambda: clock.epoch_s)
    outbox = Outbox(state.escalations, state.set_escalations, 0.0)
    escalator = Escalator(outbox, BusEscalations(identity), NoRates(), facts, epoch)
    world = World(Path(folder), policy=a_policy(controllers=("permits",)), mode=Mode.OBSERVE)
    holds = MigrationHolds(escalator.stands, escalator.ended)
    world.cluster = Cluster(escalator, holds, usage)
    world.start_agent()
    keys = (("vp:llc_permit", str(PERMIT)),)
    about = {"uuid": server, "project_id": project_id, "controller_keys": keys}
    world.boot(COMPUTE, cap_floor_ratio=0.01, **about)
    print("ready", flush=True)
    now_s = 0.0
    for line in sys.stdin:
        match json.loads(line):
            case "saved":
                wait_until(lambda: log._saved == log._now, "the file")
            case "leave":
                del world.host.guests[server]
                world.agent.tick(now_s)
            case [now_s, epoch_s, misses]:
                clock.epoch_s = epoch_s
                run(world, server, misses)
                world.agent.tick(now_s)
        print("done", flush=True)
    usage.close()


def run(world: World, server: str, misses: int) -> None:
    """For a second, in which it used one CPU."""
    counts = VcpuCounts(INSTRUCTIONS, INSTRUCTIONS, 2 * misses, misses)
    world.counters.add(server, counts)
    cpu_time_ns = world.host.guests[server].guest.cpu_time_ns + 10**9
    world.host.change(server, cpu_time_ns=cpu_time_ns)


if __name__ == "__main__":
    main(*sys.argv[1:])
