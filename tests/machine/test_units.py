# SPDX-License-Identifier: Apache-2.0
"""Our units under real systemd: sandboxed as they say, and at work in their sandbox.

Database and account are the default ones, and nobody answers at RabbitMQ or keystone: what a unit
may and may not do shows without them.
"""

import re

import pytest

from tests.machine.conftest import ROOT, Machine
from tests.waiting import wait_until

CONFIGURATION = """
[keystone_authtoken]
auth_type = password
auth_url = http://127.0.0.1:5000/v3
username = nova-vp
password = SECRET
project_name = service
user_domain_id = default
project_domain_id = default
"""
UNITS = f"""
set -e
useradd --system --home-dir /var/lib/nova-vp --shell /usr/sbin/nologin nova-vp
ln -s {ROOT}/.venv/bin/vp-* {ROOT}/.venv/bin/waitress-serve /usr/local/bin/
install -m 644 {ROOT}/etc/nova-vp/systemd/* /etc/systemd/system/
systemctl daemon-reload
"""
INSTALL = f"""{UNITS}
install -d -o root -g nova-vp -m 750 /etc/nova-vp
install -o root -g nova-vp -m 640 /dev/null /etc/nova-vp/nova-vp.conf
cat >/etc/nova-vp/nova-vp.conf <<END
{CONFIGURATION}
END
install -d -o nova-vp -g nova-vp /var/lib/nova-vp
runuser -u nova-vp -- vp-manage db sync
vp-manage credentials create --controller $(hostname) --host compute-17 \\
    --broker rabbit://127.0.0.1:5672/nova-vp --directory /root/credentials
cp -r /root/credentials/$(hostname)/. /etc/nova-vp/
chgrp -R nova-vp /etc/nova-vp
"""
MOST_EXPOSED = {"vp-api": 2.0, "vp-scheduler": 2.0, "vp-agent": 2.5, "vp-agent-release": 2.0}
SERVICES = ("vp-api", "vp-scheduler")
CREDENTIALS = "/etc/nova-vp"
OTHERS = {
    "vp-api": ("vp-scheduler", "nova-scheduler"),
    "vp-scheduler": ("vp-api", "nova-scheduler"),
}


def files_of(program: str) -> tuple[str, str]:
    """Its account, and its key."""
    return f"{program}.conf", f"keys/{program}.pem"


@pytest.fixture
def installed(machine: Machine) -> Machine:
    machine.says(INSTALL)
    return machine


AGENT = """
set -e
cat >>/etc/nova-vp/nova-vp.conf <<END
[agent]
host = compute-17
libvirt_uri = qemu+unix:///system?socket=/nowhere/libvirt-sock
END
systemctl start vp-agent.service
"""


def status_of(machine: Machine, unit: str, field: str) -> str:
    return machine.says(f"systemctl show --value --property {field} {unit}")


def test_the_agent_is_ready_with_its_first_heartbeat_and_is_watched(installed: Machine) -> None:
    """On a host without the group `libvirt`, without libvirt, counters and a message bus."""
    assert installed.run("getent group libvirt").returncode != 0
    installed.says(AGENT)
    assert installed.says("systemctl is-active vp-agent") == "active"
    assert installed.says("cat /run/nova-vp/agent.alive")
    assert installed.says("stat -c %a /run/nova-vp/agent.owner") == "600"
    assert status_of(installed, "vp-agent", "WatchdogUSec") == "2min"
    installed.says("systemctl stop vp-agent")
    # It ended by itself; with status 1, since without libvirt nobody knows whether all is reverted.
    ended = [status_of(installed, "vp-agent", f"ExecMain{field}") for field in ("Code", "Status")]
    assert ended == ["1", "1"]


def test_an_agent_that_hangs_is_ended_and_started_anew(installed: Machine) -> None:
    installed.says(
        "mkdir -p /run/systemd/system/vp-agent.service.d\n"
        "printf '[Service]\\nWatchdogSec=3\\nRestartSec=0\\n' "
        ">/run/systemd/system/vp-agent.service.d/soon.conf\nsystemctl daemon-reload"
    )
    installed.says(AGENT)
    pid = status_of(installed, "vp-agent", "MainPID")
    installed.says(f"kill -STOP {pid}")
    wait_until(
        lambda: (
            status_of(installed, "vp-agent", "NRestarts") == "1"
            and installed.run("systemctl is-active vp-agent").stdout.strip() == "active"
        ),
        "another agent",
        deadline_s=90.0,
    )
    assert status_of(installed, "vp-agent", "MainPID") != pid
    assert "Watchdog timeout" in journal(installed, "vp-agent")


def exposure(machine: Machine, unit: str) -> float:
    said = machine.says(f"systemd-analyze security --no-pager {unit}.service | tail -1")
    found = re.search(r"exposure level for \S+: ([0-9.]+)", said)
    assert found, said
    return float(found[1])


def journal(machine: Machine, unit: str) -> str:
    return machine.says(f"journalctl --no-pager --unit {unit}")


def test_services_work_in_their_sandbox_and_end_well(installed: Machine) -> None:
    installed.says("systemctl start vp-api vp-scheduler")
    answer = wait_until(
        lambda: installed.run("curl -s http://127.0.0.1:8779/health").stdout,
        "vp-api answers",
        deadline_s=240.0,
    )
    assert '"database:connection": [{"status": "pass"' in answer
    assert installed.says("systemctl is-active vp-api vp-scheduler") == "active\nactive"
    installed.says("systemctl stop vp-api vp-scheduler")
    for unit in SERVICES:
        assert installed.run(f"systemctl is-failed {unit}").stdout.strip() == "inactive"
        assert "Traceback" not in journal(installed, unit)
    assert installed.says("stat -c %U:%a /var/lib/nova-vp/*.sqlite") == "nova-vp:644"


def test_units_are_as_little_exposed_as_they_can_be(machine: Machine) -> None:
    """`vp-agent` has a network, and rights over the processes and cgroups of others."""
    machine.says(UNITS)
    found = {unit: exposure(machine, unit) for unit in MOST_EXPOSED}
    assert {unit for unit in found if found[unit] > MOST_EXPOSED[unit]} == set(), found


@pytest.mark.parametrize("unit", SERVICES)
def test_what_runs_in_the_sandbox_reaches_nothing_else(installed: Machine, unit: str) -> None:
    """A program in the place of ours, which then tries what a broken-into service would."""
    attempts = (
        "touch /etc/witness",
        "touch /usr/witness",
        "ls /root/",
        "cat /dev/kmsg",
        "mount -t tmpfs none /mnt",
        "unshare --net true",
        "chmod u+s /var/lib/nova-vp",
        "date --set 2001-01-01",
        "kill -0 1",
        *(f"cat {CREDENTIALS}/{path}" for name in OTHERS[unit] for path in files_of(name)),
    )
    script = "; ".join(f"{one} 2>/dev/null && echo did: {one}" for one in attempts)
    installed.says(
        f"mkdir -p /run/systemd/system/{unit}.service.d\n"
        f"cat >/run/systemd/system/{unit}.service.d/trial.conf <<'END'\n"
        f'[Service]\nType=oneshot\nRestart=no\nExecStart=\nExecStart=/bin/sh -c "{script}; '
        "grep -E 'CapEff|CapBnd|NoNewPrivs|Seccomp:' /proc/self/status; "
        f"cd {CREDENTIALS} && cat {' '.join(files_of(unit))} >/dev/null && echo read; "
        'touch /var/lib/nova-vp/witness"\nEND\n'
        f"systemctl daemon-reload && systemctl start {unit}"
    )
    said = journal(installed, unit)
    assert "did:" not in said
    assert re.search(r"\bread$", said, re.MULTILINE), said
    assert len(re.findall(r"Cap(?:Eff|Bnd):\s+0{16}", said)) == 2, said
    assert re.search(r"NoNewPrivs:\s+1", said)
    assert re.search(r"Seccomp:\s+2", said)
    assert installed.says("ls /var/lib/nova-vp/witness")


AGENT_TRIAL = ROOT / "tests/machine/agent_trial.py"
RIGHTS = {
    "vp-agent": {"affinity", "cgroup", "counters", "internet"},
    "vp-agent-release": {"affinity", "cgroup"},
}


@pytest.mark.parametrize("unit", RIGHTS)
def test_the_agents_sandbox_leaves_it_what_it_needs_and_no_more(
    machine: Machine, unit: str
) -> None:
    machine.says(
        f"{UNITS}touch /root/witness\n"
        f"mkdir -p /run/systemd/system/{unit}.service.d\n"
        f"cat >/run/systemd/system/{unit}.service.d/trial.conf <<'END'\n"
        "[Service]\nType=oneshot\nRestart=no\nExecCondition=\nExecStopPost=\nExecStart=\n"
        f"ExecStart=/usr/bin/python3 {AGENT_TRIAL}\nLogLevelMax=info\nEND\n"
        f"systemctl daemon-reload && systemctl start {unit}"
    )
    did = set(re.findall(r"did: (\w+)", journal(machine, unit)))
    assert did == RIGHTS[unit] | {"bus", "pages", "processes", "state"}
