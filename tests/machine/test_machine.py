# SPDX-License-Identifier: Apache-2.0
"""The machine itself: real, quick to throw away, and nothing of it stays on this host."""

import os
from pathlib import Path

import pytest

from testbed.machine import settings
from testbed.machine.groups import members
from testbed.machine.settings import Place
from tests.machine.conftest import ROOT, Machine

SYSCTLS = (
    "fs/protected_hardlinks",
    "fs/protected_fifos",
    "fs/protected_regular",
    "net/ipv4/ip_forward",
)


def of_this_host() -> dict[str, object]:
    """What a container might leave or change."""
    groups = {folder for folder, _, _ in os.walk("/sys/fs/cgroup") if Place().group_name in folder}
    mounts = [line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines()]
    return {
        "mounts": {t for t in mounts if t.startswith(str(ROOT))},
        "groups": groups,
        "links": {n for n in os.listdir("/sys/class/net") if n.startswith(("ve-", "vb-", "tap"))},
        "running": programs(),
        "sysctls": {name: Path("/proc/sys", name).read_text() for name in SYSCTLS},
        "hostname": os.uname().nodename,
    }


def programs() -> set[str]:
    """Of this machine: others may be up."""
    found = set()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_text()
            groups = (process / "cgroup").read_text()
        except OSError:
            continue
        if Place().group_name not in groups:
            continue
        if command.startswith(("systemd-nspawn", "slirp4netns", "/usr/lib/systemd/systemd\0")):
            found.add(command)
    return found


@pytest.mark.parametrize("machine", settings.SUITES, indirect=True)
def test_systemd_is_the_first_process_and_well(machine: Machine) -> None:
    assert machine.says("readlink /proc/1/exe") == "/usr/lib/systemd/systemd"
    assert machine.says("systemctl is-system-running") == "running"
    assert machine.says("systemctl --failed --no-legend") == ""


def test_two_machines_have_one_network_and_names_of_their_own(machine: Machine) -> None:
    other = Machine("other")
    other.up("--beside", machine.name)
    try:
        machine.says("systemd-run --quiet python3 -m http.server 8000 --bind 127.0.0.1")
        there = "curl -s --retry 60 --retry-connrefused --retry-delay 1 http://127.0.0.1:8000/"
        assert "Directory listing" in other.says(there)
        assert (machine.says("hostname"), other.says("hostname")) == ("machine", "other")
        machine.says("touch /root/witness")
        assert other.says("ls /root") == ""
    finally:
        other.down()


def test_limits_of_units_reach_the_kernel(machine: Machine) -> None:
    machine.says("systemd-run --quiet --unit=limited -p CPUWeight=50 -p MemoryMax=50M sleep 1000")
    group = machine.says("systemctl show --value --property ControlGroup limited")
    files = f"/sys/fs/cgroup/cpu{group}/cpu.shares /sys/fs/cgroup{group}/cpu.weight"
    assert machine.run(f"cat {files}").stdout.strip() in ("512", "50")


def test_a_command_has_its_own_exit_status_and_output(machine: Machine) -> None:
    done = machine.run("echo out; echo err >&2; exit 7")
    assert (done.returncode, done.stdout, done.stderr) == (7, "out\n", "err\n")


def test_up_and_down_may_be_said_twice(machine: Machine) -> None:
    machine.says("touch /root/witness")
    assert "was up already" in machine.command("up").stdout
    assert machine.says("ls /root") == "witness"
    machine.down()
    assert "was down already" in machine.command("down").stdout
    refused = machine.run("true")
    assert refused.returncode == 1
    assert "machine up` first" in refused.stderr


def test_the_next_machine_is_a_fresh_one(machine: Machine) -> None:
    machine.says("touch /root/witness /etc/witness; systemctl enable systemd-journald@x.socket")
    machine.down()
    machine.up()
    assert machine.says("ls /root; ls /etc | grep -c witness; true") == "0"


def test_nothing_of_it_stays_on_this_host_and_nothing_of_this_host_changes(
    machine: Machine,
) -> None:
    machine.down()
    before = of_this_host()
    machine.up()
    assert programs() - before["running"]  # type: ignore[operator]
    machine.says("hostname elsewhere; mkdir /mnt/x; mount -t tmpfs none /mnt/x")
    machine.says("systemd-run --quiet sleep 1000")
    machine.down()
    assert of_this_host() == before


def test_what_was_killed_in_between_is_found(machine: Machine) -> None:
    """What carries its network is gone, its systemd is not."""
    [network] = (
        pid
        for pid in members(Place())
        if Path(f"/proc/{pid}/cmdline").read_text().startswith("slirp4netns")
    )
    os.kill(network, 9)
    machine.down()
    assert programs() == set()


def test_the_checkout_is_there_and_cannot_be_written(machine: Machine) -> None:
    assert machine.says(f"{ROOT}/.venv/bin/vp-agent --help | head -1").startswith("usage:")
    assert machine.run(f"touch {ROOT}/witness").returncode != 0
