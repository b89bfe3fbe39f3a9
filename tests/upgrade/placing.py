# SPDX-License-Identifier: Apache-2.0
"""What a nova-scheduler with our filter would do: `python placing.py CONFIGURATION HOST`.

Run by the Python of either release. It asks the filter again and again whether the host takes a
strict server, and prints `passed` or `refused` whenever that has changed.
"""

import sys
import time

from oslo_service import backend

backend.init_backend(backend.BackendType.THREADING)

import nova.conf  # noqa: E402
from nova import objects  # noqa: E402
from nova.scheduler.host_manager import HostState  # noqa: E402

from vp_scheduler.filters import VPIsolationFilter  # noqa: E402

EVERY_S = 0.2
NEW_SERVER = "11111111-2222-4333-8444-000000000001"
NODE = "11111111-2222-4333-8444-000000000000"


def main(config: str, name: str) -> None:
    objects.register_all()
    nova.conf.CONF([], default_config_files=[config])
    asked = VPIsolationFilter()
    specs = {"vp:isolation": "strict"}
    flavor = objects.Flavor(
        flavorid="f1", name="f1", vcpus=1, memory_mb=64, root_gb=0, extra_specs=specs
    )
    request = objects.RequestSpec(
        flavor=flavor, instance_uuid=NEW_SERVER, num_instances=1, scheduler_hints={}
    )
    host = HostState(name, name, NODE)
    host.instances = {}
    last = None
    while True:
        now = "passed" if list(asked.filter_all([host], request)) else "refused"
        if now != last:
            print(now, flush=True)
        last = now
        time.sleep(EVERY_S)


if __name__ == "__main__":
    main(*sys.argv[1:])
