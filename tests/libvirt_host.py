# SPDX-License-Identifier: Apache-2.0
"""A private libvirtd with tiny QEMU TCG guests, for contract tests, the spike and benchmarks.

Nothing of the machine's own libvirt is used or changed. Guests run in the caller's pid namespace
(their threads are real and can be pinned) and die with the caller, however it ends. They have no
disk: SeaBIOS finds nothing to boot and waits, so a hundred of them cost nothing.
"""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import threading
import uuid as uuids
from collections.abc import Mapping
from pathlib import Path

import libvirt

from testbed.lab import topology
from tests.waiting import STRETCH, wait_until

# Without a handler every expected error is printed.
libvirt.registerErrorHandler(lambda *_: None, None)

CAPABILITIES = Path(__file__).resolve().parents[1] / ".cache/libvirt-capabilities"
"""libvirt probes an emulator for eight seconds; what it learnt is kept between runs."""
INIT = Path(__file__).with_name("libvirt_host_init")
ANSWER_WITHIN_S = 60.0
"""Of an emulator that starts."""
_CGROUP_SIGNS = ("cgroup.controllers", "cpuset/tasks")
_ACTIVE = libvirt.VIR_CONNECT_LIST_DOMAINS_ACTIVE
QEMU_CONF = """\
user = "root"
group = "root"
dynamic_ownership = 0
remember_owner = 0
security_driver = "none"
namespaces = []
migration_port_min = {port}
migration_port_max = {port_max}
"""
LIBVIRTD_CONF = """\
listen_tls = 0
listen_tcp = 0
auth_unix_rw = "none"
host_uuid = "{uuid}"
log_outputs = "3:file:/var/log/libvirt/libvirtd.log"
"""


def missing_for_libvirt() -> str | None:
    """Why no private libvirtd can run here, or None."""
    if os.geteuid() != 0:
        return "a private libvirtd needs root"
    for command in ("libvirtd", "virtlogd", "qemu-system-x86_64", "unshare"):
        if shutil.which(command) is None:
            return f"{command} is not installed (tools/install-debian-packages)"
    if not any(Path("/sys/fs/cgroup", one).exists() for one in _CGROUP_SIGNS):
        return "a private libvirtd needs cgroups: unified, or version 1 hierarchies"
    return None


class LibvirtHost:
    """One private host. `emulator_directory` goes first on libvirtd's PATH: what stands there as
    `qemu-system-x86_64` becomes the emulator. `env` is added to libvirtd's (and QEMU's). `cells`
    (`0/1`, or `0+1` for one with two LLCs): the NUMA cells that it shows instead of the machine's;
    only CPUs that the machine has can be pinned to. `preload`: the lab's shim, for libvirtd and
    QEMU alone."""

    def __init__(
        self,
        folder: Path,
        env: Mapping[str, str] | None = None,
        emulator_directory: Path | None = None,
        migration_port: int = 49152,
        cells: str | None = None,
        preload: Path | None = None,
    ) -> None:
        self.folder = folder
        self._cells = cells
        self.name = f"vp-test-{uuids.uuid4().hex[:8]}"
        self.uri = f"qemu+unix:///system?socket={folder}/run/libvirt/libvirt-sock"
        self.run_directory = folder / "run/libvirt/qemu"
        self.migration_uri = f"tcp:127.0.0.1:{migration_port}"
        self._env = {**os.environ, **(env or {})}
        if preload is not None:
            self._env["LIBVIRTD_PRELOAD"] = str(preload)
        if emulator_directory is not None:
            self._env["PATH"] = f"{emulator_directory}:{self._env['PATH']}"
        self._port = migration_port
        self._capabilities = folder / "cache/qemu/capabilities"
        self._init: subprocess.Popen[str] | None = None

    def start(self) -> "LibvirtHost":
        self._write_files()
        with (self.folder / "log/init.log").open("w") as log:
            self._init = subprocess.Popen(
                [INIT, self.folder, self.name],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                env=self._env,
                text=True,
                start_new_session=True,
            )
        self._wait_for_libvirtd()
        return self

    def stop(self) -> None:
        if self._init is None:
            return
        assert self._init.stdin is not None
        self._init.stdin.close()
        self._init.wait(timeout=30)
        self._init = None
        if self._capabilities.exists():
            shutil.copytree(self._capabilities, CAPABILITIES, dirs_exist_ok=True)

    def connect(self) -> libvirt.virConnect:
        return libvirt.open(self.uri)

    def boot(self, domain_xml: str, *, is_persistent: bool = False) -> libvirt.virDomain:
        """A running guest. Nova's are persistent: those keep a second, inactive XML.

        An emulator that never answers is killed, and started once more: QEMU 7.2 can lose the
        wakeup of its monitor's dispatcher, and libvirtd waits for it for ever.
        """
        [name] = re.findall("<name>(.*?)</name>", domain_xml)
        is_silent = threading.Event()

        def end_emulator() -> None:
            is_silent.set()
            os.kill(self.pid_of_name(name), signal.SIGKILL)

        watchdog = threading.Timer(ANSWER_WITHIN_S * STRETCH, end_emulator)
        watchdog.start()
        try:
            return self._boot(domain_xml, is_persistent)
        except libvirt.libvirtError:
            if not is_silent.is_set():
                raise
        finally:
            watchdog.cancel()
        return self._boot(domain_xml, is_persistent)

    def _boot(self, domain_xml: str, is_persistent: bool) -> libvirt.virDomain:
        connection = self.connect()
        if not is_persistent:
            return connection.createXML(domain_xml)
        domain = connection.defineXML(domain_xml)
        domain.create()
        return domain

    def destroy_all(self) -> None:
        """Quicker than virDomainDestroy, and right even while libvirtd reconnects to a guest."""
        connection = self.connect()
        for pid_file in self.run_directory.glob("instance-*.pid"):
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                os.kill(int(pid_file.read_text()), signal.SIGKILL)
        wait_until(lambda: not connection.listAllDomains(_ACTIVE), "every guest is gone")
        for domain in connection.listAllDomains():
            domain.undefine()

    def pid_of(self, domain: libvirt.virDomain) -> int:
        return self.pid_of_name(domain.name())

    def pid_of_name(self, domain_name: str) -> int:
        """Works without libvirtd."""
        return int((self.run_directory / f"{domain_name}.pid").read_text())

    def libvirtd_pid(self) -> int:
        return int((self.folder / "run/libvirtd.pid").read_text())

    def inside(self) -> list[str]:
        """The start of a command that sees this host's /run and /sys as libvirtd does."""
        return ["nsenter", f"--mount=/proc/{self.libvirtd_pid()}/ns/mnt", f"--wdns={os.getcwd()}"]

    def stop_libvirtd(self) -> None:
        """Guests go on; the socket is gone when this returns."""
        pid = self.libvirtd_pid()
        os.kill(pid, signal.SIGTERM)
        wait_until(lambda: not Path(f"/proc/{pid}").exists(), "libvirtd is gone")

    def start_libvirtd(self) -> None:
        assert self._init is not None
        assert self._init.stdin is not None
        self._init.stdin.write("start\n")
        self._init.stdin.flush()
        self._wait_for_libvirtd()

    def reload(self) -> None:
        """Nothing here keeps a record of weights."""

    def is_answering(self) -> bool:
        if not (self.folder / "run/libvirt/libvirt-sock").exists():
            return False
        try:
            self.connect().close()
        except libvirt.libvirtError:
            return False
        return True

    def _wait_for_libvirtd(self) -> None:
        wait_until(self.is_answering, f"libvirtd answers (see {self.folder}/log)")

    def _write_files(self) -> None:
        for name in ("etc/qemu/networks", "etc/hooks", "lib/qemu", "cache/qemu", "log/qemu", "run"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        if CAPABILITIES.exists():
            shutil.copytree(CAPABILITIES, self._capabilities)
        if self._cells:
            layout = topology.Topology.parse(self._cells, memory_mib=8192)
            topology.write_tree(layout, self.folder / "system")
        etc = self.folder / "etc"
        (etc / "libvirtd.conf").write_text(LIBVIRTD_CONF.format(uuid=uuids.uuid4()))
        ports = {"port": self._port, "port_max": self._port + 63}
        (etc / "qemu.conf").write_text(QEMU_CONF.format(**ports))
