# SPDX-License-Identifier: Apache-2.0
"""A CPU cap never outlives its agent: killed and not started again, it is undone within the lease.

The cap is set by the agent's own executor, in its own journal; who would have wanted it does not
matter here. What undoes it is the loop that stands for the systemd timer.
"""

import signal

import pytest

from testbed.lab import cloud, settings
from tests.lab.hosts import cgroup_values, domain_xml, wait_until_homed

HOST = "vp1"
AGENT = f"vp-agent@{HOST}"
JOURNAL = "urn:nova-vp:1"
LEASE_S = 60
CAP = """
import sys, time
from oslo_config import cfg
from nova_vp.core.controllers.vp.declaration import CAP
from nova_vp import conf as options
from nova_vp.core.types.action import Action, Change
from nova_vp.core.types.knob import NO_QUOTA, Knob, Quota
from nova_vp.core.types.reason import Reason
from nova_vp.core.types.claim import PredictedLoss
from vp_agent import wiring
from vp_agent.loop.executor import Executor
from vp_agent.loop.state import StateFolder

conf = cfg.CONF
options.register_all(conf)
conf(["--config-file", "/etc/nova-vp/nova-vp.conf"])
side = wiring.libvirt_side(conf, undoes_only=True)
epoch = StateFolder(conf.agent.state_directory).last_epoch()
executor = Executor(side.journal, side.actuators, epoch)
uuid, now_s = sys.argv[1], time.monotonic()
change = Change(uuid, Knob.CPU_CAP, Quota(60_000, 100_000), NO_QUOTA, NO_QUOTA, now_s + 60)
action = Action("cap-1", "vp", uuid, (change,), (), CAP, now_s, PredictedLoss(0.0, 0.0))
[outcome] = executor.apply([action], now_s)
print(outcome.result.value, outcome.detail)
"""


@pytest.fixture
def server(admin):
    """Its agent is there again afterwards."""
    server = cloud.boot(admin, "t-capped", "vp.tiny", "work=compute", host=HOST)
    wait_until_homed(HOST, server.id)
    yield server
    cloud.start(AGENT)


def quotas(instance: str) -> set[str]:
    found = cgroup_values(HOST, instance)
    return {v for path, v in found.items() if "vcpu" in path and path.endswith("quota_us")}


def test_killed_with_a_cap_applied_and_never_restarted(admin, server):
    instance = admin.compute.get_server(server.id).instance_name
    before = cgroup_values(HOST, instance)
    # First, or its next tick undoes what none of its controllers wants.
    cloud.stop(AGENT, signal.SIGKILL)
    done = cloud.shell(HOST, str(settings.PYTHON), "-c", CAP, server.id)
    assert done.stdout.startswith("applied"), done
    assert quotas(instance) == {"60000"}
    cloud.wait_for(lambda: quotas(instance) == {"-1"}, "Nova's quota", deadline_s=LEASE_S + 10)
    assert cgroup_values(HOST, instance) == before
    cloud.wait_for(
        lambda: JOURNAL not in domain_xml(HOST, instance), "the journal to go", deadline_s=10
    )
