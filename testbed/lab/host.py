# SPDX-License-Identifier: Apache-2.0
"""A virtual host: its folder, its root process in its own namespaces, its cable to the bridge.

Every step leaves alone what is already as it should be, so `ensure` also repairs.
"""

import shlex
import shutil
import uuid
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from nova_vp.cpuset import format_cpus
from testbed.lab import cgroups, nova, processes, settings
from testbed.lab.config import Values, render_to
from testbed.lab.errors import LabError
from testbed.lab.supervise import Service, prepare
from testbed.lab.topology import Topology, write_tree
from testbed.lab.waiting import wait_for

SHIM = settings.CACHE / "numa_shim.so"
INSTANCES = settings.RUN / "instances"
MIGRATE_HOOK = settings.ROOT / "vp_agent" / "hooks" / "qemu.d" / "nova-vp"
RELEASE_UNIT = settings.ROOT / "etc" / "nova-vp" / "systemd" / "vp-agent-release.service"
MODELLED = "modelled:"
VPMU_FOLDER = "/run/vpmu"
"""As a host sees it; made by host-init."""
DEFAULT_CELLS = "/".join(str(cpu) for cpu in range(min(2, settings.REAL_CPUS)))


@dataclass(frozen=True, slots=True)
class Host:
    name: str
    cells: str = DEFAULT_CELLS
    models_cpus: bool = False
    """Its guests share the CPUs that it shows in modelled time, whatever the machine has."""

    @classmethod
    def parse(cls, text: str) -> "Host":
        """`vp3`, `vp3=0-3/4-7`, `vp3=0+1` or `vp3=modelled:0-3/4-7`."""
        name, _, cells = text.partition("=")
        models_cpus, cells = cells.startswith(MODELLED), cells.removeprefix(MODELLED)
        if not name.startswith("vp") or not name[2:].isdigit() or not 1 <= int(name[2:]) <= 200:
            raise ValueError(f"{name!r} is not a host name: vp1, vp2, ... vp200")
        host = cls(name, cells or DEFAULT_CELLS, models_cpus)
        Topology.parse(host.cells, settings.HOST_MEMORY_MIB)
        return host

    @property
    def layout(self) -> str:
        return (MODELLED if self.models_cpus else "") + self.cells

    @property
    def address(self) -> str:
        return settings.CONTROLLER_IP.rsplit(".", 1)[0] + f".{10 + int(self.name[2:])}"

    @property
    def folder(self) -> Path:
        return settings.RUN / self.name

    @property
    def topology(self) -> Topology:
        return Topology.parse(self.cells, settings.HOST_MEMORY_MIB)

    @property
    def has_fake_cpus(self) -> bool:
        return bool(self.dedicated_cpus)

    @property
    def shared_cpus(self) -> tuple[int, ...]:
        """Guests float over real CPUs only, a vCPU on a fake one would never be placed; or over
        all that are modelled."""
        cpus = self.topology.cpus
        return cpus if self.models_cpus else tuple(c for c in cpus if c < settings.REAL_CPUS)

    @property
    def dedicated_cpus(self) -> tuple[int, ...]:
        """Fake CPUs: pins to them are recorded, not enforced."""
        return tuple(cpu for cpu in self.topology.cpus if cpu not in self.shared_cpus)

    @property
    def shim(self) -> dict[str, str]:
        """The environment of whoever must see this host's CPUs in place of the machine's."""
        if not self.models_cpus:
            return {}
        cpus = str(len(self.topology.cpus))
        folder = {"NUMA_SHIM_VPMU": VPMU_FOLDER, "NUMA_SHIM_MODELLED_CPUS": cpus}
        return {"LD_PRELOAD": str(SHIM), **folder}


def ensure(host: Host, values: Values) -> None:
    """Have the host's root process running and plugged in, with its services kept running."""
    _build_shim()
    if processes.root_pid(host.name) is None:
        _clear(host)
        _make_folder(host)
        _render_config(host, values)
        _launch(host)
    else:
        _render_config(host, values)
    _plug(host)
    for service in services(host):
        processes.ensure_service(host.name, service)


def power_off(name: str) -> None:
    """End everything in the host; its folder and its cloud records stay. The next kernel starts
    without cgroups.
    """
    if cgroups.tracker(name).exists():
        cgroups.kill_all(name)
        cgroups.remove(name)
    unplug(name)


def unplug(name: str) -> None:
    """The kernel takes the cable away some time after the host's last process; the next host of
    this name must not find the old one.
    """
    with suppress(LabError):
        processes.run("ip", "link", "delete", f"nova-{name}")
    path = Path(f"/sys/class/net/nova-{name}")
    wait_for(lambda: not path.exists(), f"the cable of {name} to go", deadline_s=60)


def _clear(host: Host) -> None:
    power_off(host.name)
    for name in ("dev", "etc", "system", "sysfs", "libvirt", "cache", "supervise"):
        shutil.rmtree(host.folder / name, ignore_errors=True)


def _make_folder(host: Host) -> None:
    empty = ("dev", "sysfs", "nova/instances", "nova-vp", "system", "cache/qemu", "libvirt/qemu")
    for name in empty:
        (host.folder / name).mkdir(parents=True, exist_ok=True)
    INSTANCES.mkdir(exist_ok=True)
    (settings.LOG / host.name / "libvirt" / "qemu").mkdir(parents=True, exist_ok=True)
    prepare(processes.control_folder(host.name))
    write_tree(host.topology, host.folder / "system")
    processes.run("cp", "-a", "/etc", str(host.folder / "etc"))
    _personalise_etc(host, host.folder / "etc")


def _personalise_etc(host: Host, etc: Path) -> None:
    identity = uuid.uuid5(uuid.NAMESPACE_DNS, host.name)
    for name in ("machine-id", "hostname", "hosts"):
        (etc / name).unlink(missing_ok=True)
    (etc / "machine-id").write_text(identity.hex + "\n")
    (etc / "hostname").write_text(host.name + "\n")
    (etc / "hosts").write_text("127.0.0.1 localhost\n")
    for name in ("nova", "nova-vp", "libvirt/qemu", "libvirt/hooks/qemu.d"):
        (etc / name).mkdir(parents=True, exist_ok=True)
    shutil.rmtree(etc / "libvirt" / "qemu" / "networks", ignore_errors=True)
    shutil.copy(MIGRATE_HOOK, etc / "libvirt" / "hooks" / "qemu.d" / "nova-vp")


def _render_config(host: Host, values: Values) -> None:
    etc = host.folder / "etc"
    own = values | {
        "host": host.name,
        "bus": (_credentials(host) / "vp-agent.conf").read_text(),
        "address": host.address,
        "host_folder": str(host.folder),
        "uuid": str(uuid.uuid5(uuid.NAMESPACE_DNS, host.name)),
        "shared_cpus": format_cpus(host.shared_cpus),
        "dedicated_cpus": format_cpus(host.dedicated_cpus),
        "lock_path": "/run/nova/lock",
        "vpmu_maps": vpmu_maps(host.topology),
        "cpu_times": str(host.models_cpus).lower(),
        "vpmu_cpus": str(len(host.topology.cpus) if host.models_cpus else 0),
        "vpmu_siblings": "auto" if host.models_cpus else "none",
    }
    render_to(etc / "nova" / "nova.conf", "nova-compute.conf", own)
    render_to(etc / "nova-vp" / "nova-vp.conf", "nova-vp-host.conf", own)
    shutil.copytree(_credentials(host) / "keys", etc / "nova-vp" / "keys", dirs_exist_ok=True)
    render_to(etc / "nova-vp" / "vpmu.conf", "vpmu.conf", own)
    processes.write_shell_environment(host.name, host.shim)
    render_to(etc / "libvirt" / "libvirtd.conf", "libvirtd.conf", own)
    render_to(etc / "libvirt" / "qemu.conf", "qemu.conf", own)


def _credentials(host: Host) -> Path:
    """Made by `credentials.py`."""
    return settings.RUN / "credentials" / host.name


def vpmu_maps(topology: Topology) -> str:
    """What the software PMU cannot tell from sysfs by itself: caches that are not a cell's own."""
    if topology.llcs == topology.cells:
        return ""
    llcs = range(len(topology.llcs))
    cpumap = ";".join(f"{cpu}:{llc}" for llc in llcs for cpu in topology.llcs[llc])
    nodemap = ";".join(f"{llc}:{topology.cell_of(llc)}" for llc in llcs)
    return f"cpumap={cpumap}\nnodemap={nodemap}"


def _launch(host: Host) -> None:
    groups = cgroups.make_host_groups(host.name)
    hierarchies = cgroups.read_hierarchies()
    argv = ["unshare", "--mount", "--uts", "--pid", "--ipc", "--net"]
    argv += ["--fork", "--kill-child", "--mount-proc", str(settings.LAB / "host-init")]
    argv += [host.name, host.address, str(host.folder), str(INSTANCES)]
    argv += [str(settings.LOG / host.name), str(settings.PYTHON)]
    argv += [" ".join(f"{target}={options}" for target, options in hierarchies.items())]
    # Its groups become its root first: then it may leave them for the one of its processes.
    rooted = ["unshare", "--cgroup", *processes.entering(cgroups.members(groups), argv)]
    processes.launch(host.name, rooted, groups, settings.base_environment())


def _plug(host: Host) -> None:
    """A cable from the bridge into the host's network namespace; gone when the host is gone."""
    cable = f"nova-{host.name}"
    if not Path(f"/sys/class/net/{cable}").exists():
        pid = wait_for(
            lambda: _unshared_pid(host), f"{host.name} to leave our namespaces", deadline_s=60
        )
        veth = ["ip", "link", "add", cable, "type", "veth"]
        processes.run(*veth, "peer", "name", "eth0", "netns", str(pid))
    processes.run("ip", "link", "set", cable, "master", settings.BRIDGE, "up")


def _unshared_pid(host: Host) -> int | None:
    """The host's first process, once it has a network namespace of its own."""
    pid = processes.supervisor_pid(host.name)
    ours = Path("/proc/self/ns/net").readlink()
    return pid if pid and Path(f"/proc/{pid}/ns/net").readlink() != ours else None


def services(host: Host) -> list[Service]:
    """What runs on every host. A row for a new process of the product goes here."""
    emulator_first = f"{settings.LAB / 'bin'}:{settings.base_environment()['PATH']}"
    shim = {"PATH": emulator_first, "LD_PRELOAD": str(SHIM), **host.shim}
    if host.has_fake_cpus:
        shim["NUMA_SHIM_CPUS"] = "1"
    compute = (nova.chosen().program("nova-compute"), "--config-file", "/etc/nova/nova.conf")
    ssh_first = {"PATH": f"{settings.LAB / 'compute-bin'}:{settings.base_environment()['PATH']}"}
    agent = ("vp-agent", "--config-file", "/etc/nova-vp/nova-vp.conf", "run")
    rows = [
        _service(host, "host-network", (str(settings.LAB / "host-network"),), {}),
        _service(host, "virtlogd", ("virtlogd",), {}),
        _service(host, "libvirtd", ("libvirtd", "--listen"), shim, "libvirt/libvirtd.conf"),
        _service(host, "nova-compute", compute, ssh_first, "nova/nova.conf"),
    ]
    if (settings.VENV / "bin" / "vp-agent").exists():
        rows.append(_service(host, "vp-agent", agent, host.shim, "nova-vp/nova-vp.conf"))
        rows.append(_service(host, "vp-agent-release", release_loop(), host.shim))
    return rows


def release_loop() -> tuple[str, ...]:
    """As the systemd timer does it, by the condition of its unit: a look only once the agent's
    heart has stopped."""
    _, _, condition = RELEASE_UNIT.read_text().partition("\nExecCondition=")
    *_, script = shlex.split(condition.splitlines()[0])
    look = "vp-agent --config-file /etc/nova-vp/nova-vp.conf release --expired"
    condition = script.replace("$$", "$")
    return ("sh", "-c", f"while sleep 5; do if {condition}; then {look}; fi; done")


def _service(
    host: Host, name: str, argv: tuple[str, ...], extra: dict[str, str], config: str = ""
) -> Service:
    revision = (host.folder / "etc" / config).read_text() if config else ""
    return Service(
        name=name,
        argv=argv,
        environment=settings.base_environment() | {"HOME": "/run/nova"} | extra,
        log=str(processes.log_path(host.name, name)),
        folder="/run/nova",
        revision=revision,
    )


def _build_shim() -> None:
    processes.run("make", "-s", "-C", str(settings.LAB / "shim"), f"OUT={SHIM}")
