# SPDX-License-Identifier: Apache-2.0
"""The lab as tempest finds it: fresh, and either with all of ours at work or with nothing of it.

Without: no agent, no service, no filter, no weigher, no hook of ours. With: agents in `enforce`,
which answer calls of overlays too, and flavors that ask for isolation, so that all of it has
something to do.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from testbed.lab import cloud, cloud_resources, settings, up
from tests.lab import fresh
from tests.lab.hosts import set_mode
from tests.lab.operators import host_conf

FLAVORS = {"flavor_ref": ("tempest.tiny", 1, 96), "flavor_ref_alt": ("tempest.small", 2, 128)}
IMAGE_ALT = "vp-guest-alt"
HOSTS = ("vp1", "vp2")
HOST_NOVA = "nova-compute@"
SPECS = {"vp:isolation": "soft"}
CONTROLLERS = "\n[policy]\ncontrollers = initial_placement,overlays,rebalance,vp\n"
SCHEDULER_LOG = settings.LOG / "controller" / "nova-scheduler.log"


@contextmanager
def fresh_lab(with_ours: bool) -> Iterator[None]:
    with fresh.fresh_lab("--hosts", str(len(HOSTS))):
        _offload_at_once()
        if with_ours:
            _enforce()
        else:
            _take_ours_out()
        yield


def _offload_at_once() -> None:
    """Shelved servers, as tempest expects of a cloud; the lab lets them stay."""
    for host in HOSTS:
        conf = settings.RUN / host / "etc" / "nova" / "nova.conf"
        _rewrite(conf, r"^shelved_offload_time\b.*$", "shelved_offload_time = 0", HOST_NOVA + host)


def _enforce() -> None:
    for host in HOSTS:
        path = host_conf(host)
        path.write_text(path.read_text() + CONTROLLERS)
        cloud.stop(f"vp-agent@{host}")
        cloud.start(f"vp-agent@{host}")
        set_mode(host, "enforce")


def _take_ours_out() -> None:
    for service in (*(f"vp-agent@{host}" for host in HOSTS), "vp-scheduler", "vp-api"):
        cloud.stop(service)
    for host in HOSTS:
        cloud.shell(host, "rm", "/etc/libvirt/hooks/qemu.d/nova-vp")
    ours = r",VPIsolationFilter|,vp_scheduler[\w.]+|^available_filters = vp_scheduler.*$"
    _rewrite(settings.ETC / "nova.conf", ours, "", "nova-scheduler")
    cloud.wait_for(_has_scheduler, "nova-scheduler to listen", deadline_s=60, interval_s=0.5)


def _rewrite(path: Path, old: str, new: str, service: str) -> None:
    before = path.read_text()
    after = re.sub(old, new, before, flags=re.MULTILINE)
    assert after != before, f"{path} has nothing like {old}"
    path.write_text(after)
    cloud.stop(service)
    cloud.start(service)


def _has_scheduler() -> bool:
    return any(name.startswith("scheduler_fanout") for name in cloud.queues())


def references() -> dict[str, str]:
    """The images and flavors that tempest uses, made here; as its options name them."""
    admin = cloud.connect()
    image = admin.image.find_image(cloud_resources.IMAGE)
    other = admin.image.create_image(
        IMAGE_ALT,
        filename=str(up.IMAGE_FILE),
        disk_format="qcow2",
        container_format="bare",
        visibility="public",
        wait=True,
        **{key: value for key, value in image.properties.items() if key.startswith("hw_")},
    )
    flavors = {
        option: cloud.put_flavor(admin, name, vcpus=vcpus, ram=ram, specs=SPECS)
        for option, (name, vcpus, ram) in FLAVORS.items()
    }
    return {"image_ref": image.id, "image_ref_alt": other.id, **flavors}


def times_judged() -> int:
    """How often our weigher ranked hosts for a request."""
    return SCHEDULER_LOG.read_text().count("VPInterferenceWeigher: server ")
