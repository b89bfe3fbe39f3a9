# SPDX-License-Identifier: Apache-2.0
"""A machine on which DevStack calls our plugin: folders, and phases run in a bash with the stub."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.unit.devstack.ini import sections_of

HERE = Path(__file__).parent
REPOSITORY = HERE.parents[2]
VENV = Path(os.environ.get("VIRTUAL_ENV", REPOSITORY / ".venv"))
TOOLS = (
    *("basename", "bash", "cat", "cp", "date", "dirname", "env", "grep", "hostname", "install"),
    *("ln", "mkdir", "mktemp", "python3", "realpath", "rm", "sed", "tee", "touch"),
)
"""Programs of a machine that the plugin may call without DevStack."""
ALL_IN_ONE = "key,mysql,rabbit,n-api,n-sch,n-cpu,horizon,tempest,openstack-cli-server"
PHASES = ("pre-install", "install", "post-config", "extra", "test-config")
CALL = 'source "$VP_DIR/devstack/plugin.sh" {}'
SETTINGS = ("override-defaults", "settings")
FILTERS = "ComputeFilter,ImagePropertiesFilter"
HOST = "node-1"


class Stack:
    def __init__(self, folder: Path, services: str = ALL_IN_ONE, **settings: str) -> None:
        """`settings`: of local.conf."""
        self.root, self.stub = folder / "root", folder / "stub"
        self.plugin = self.root / "opt/stack/nova-vp"
        self.services, self.settings = services, settings
        self._make_folders()

    def _make_folders(self) -> None:
        for place in ("etc/nova", "etc/libvirt", "opt/stack/data", "opt/stack/tempest/etc", "run"):
            (self.root / place).mkdir(parents=True)
        (self.root / "opt/stack/nova/nova/compute/monitors/cpu").mkdir(parents=True)
        for name in ("enabled", "local_settings.d"):
            (self.root / "opt/stack/horizon/openstack_dashboard/local" / name).mkdir(parents=True)
        (self.root / "etc/libvirt/qemu.conf").write_text("# of the package\n")
        (self.root / "etc/nova/nova.conf").write_text(
            f"[DEFAULT]\nhost = {HOST}\n[filter_scheduler]\nenabled_filters = {FILTERS}\n"
        )
        (self.plugin / "testbed/vpmu").mkdir(parents=True)
        (self.plugin / ".cache").mkdir()
        (self.plugin / ".cache/guest.qcow2").touch()
        for name in ("devstack", "etc", "nova_vp", "setup.cfg", "vp_agent", "vp_dashboard"):
            (self.plugin / name).symlink_to(REPOSITORY / name)
        guest = self.plugin / "testbed/lab/guest"
        guest.mkdir(parents=True)
        (guest / "build").symlink_to("/usr/bin/true")
        (guest / "image-properties").symlink_to(REPOSITORY / "testbed/lab/guest/image-properties")
        (guest.parent / "bin").symlink_to(REPOSITORY / "testbed/lab/bin")
        tools = self.stub / "bin"
        tools.mkdir(parents=True)
        for name in TOOLS:
            (tools / name).symlink_to(f"/usr/bin/{name}")
        (tools / "uwsgi").symlink_to("/usr/bin/true")
        (tools / "vp-manage").symlink_to(VENV / "bin/vp-manage")
        for name in ("calls", "owned", "running"):
            (self.stub / name).touch()

    def run(self, script: str) -> subprocess.CompletedProcess[str]:
        """As in stack.sh after plugins were found: the settings, then the script."""
        before = "".join(f'source "$VP_DIR/devstack/{name}"\n' for name in SETTINGS)
        return subprocess.run(
            ["/bin/bash", "-c", f'source "$STUB_DIR/stub.sh"\n{before}{script}\n'],
            capture_output=True,
            text=True,
            env=self._environment(),
        )

    def _environment(self) -> dict[str, str]:
        root = str(self.root)
        return {
            "PATH": str(self.stub / "bin"),
            "TMPDIR": str(self.stub),
            "ROOT": root,
            "STUB": str(self.stub),
            "STUB_DIR": str(HERE),
            "PYTHON": str(VENV / "bin/python"),
            "VP_DIR": str(self.plugin),
            "ENABLED_SERVICES": self.services,
            "VP_CONF_DIR": f"{root}/etc/nova-vp",
            "VP_SYSTEMD_DIR": f"{root}/etc/systemd/system",
            "VP_LIBVIRT_DIR": f"{root}/etc/libvirt",
            "VP_POLKIT_RULE": f"{root}/etc/polkit-1/rules.d/50-nova-vp.rules",
            "VP_EMULATOR_DIR": f"{root}/usr/local/lib/nova-vp",
            "VP_LIBVIRT_CACHE_DIR": f"{root}/var/cache/libvirt",
            "VP_APACHE_STATE_DIR": f"{root}/var/lib/apache2",
            "VP_RUN_DIR": f"{root}/run",
            "VP_EVENT_SOURCES": f"{root}/sys",
            **self.settings,
        }

    def phase(self, mode: str, phase: str = "") -> None:
        done = self.run(CALL.format(f"{mode} {phase}"))
        assert done.returncode == 0, f"{mode} {phase}: {done.stderr}"

    def stack(self) -> None:
        for phase in PHASES:
            self.phase("stack", phase)

    def calls(self, name: str) -> list[str]:
        """What followed the name of each call."""
        lines = (self.stub / "calls").read_text().splitlines()
        return [line.partition(" ")[2] for line in lines if line.partition(" ")[0] == name]

    def running(self) -> list[str]:
        return (self.stub / "running").read_text().split()

    def options(self, path: str) -> dict[tuple[str, str], str]:
        """Of a file below the root, by section and name; the last of several."""
        sections = sections_of(self.root / path)
        return {(section, name): v for section, all_ in sections.items() for name, v in all_}

    def files(self) -> dict[str, str]:
        """Contents of what is there, by path below the root; of a link where it leads."""
        return {str(path.relative_to(self.root)): text for path, text in self._files()}

    def _files(self) -> Iterator[tuple[Path, str]]:
        for path in sorted(self.root.rglob("*")):
            if path.is_symlink():
                yield path, str(path.readlink())
            elif path.is_file() and self.plugin not in path.parents:
                yield path, path.read_bytes().decode(errors="replace")
