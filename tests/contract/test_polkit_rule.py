# SPDX-License-Identifier: Apache-2.0
"""The shipped polkit rule, before a real polkitd: whom it lets change which unit, and how.

systemd asks polkit with the unit and a verb, never with the property.
"""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from jeepney.bus_messages import message_bus
from jeepney.io.blocking import Proxy, open_dbus_connection

from tests.systemd_manager import BUS
from tests.waiting import wait_until

RULE = Path(__file__).resolve().parents[2] / "etc/nova-vp/polkit/50-nova-vp.rules"
POLKITD = Path("/usr/lib/polkit-1/polkitd")
RULES = "/etc/polkit-1/rules.d"
ITS_USER, OUR_USER = "nova-vp", "nobody"
MANAGE = "org.freedesktop.systemd1.manage-units"
SCOPE = r"machine-qemu\x2d1\x2dinstance\x2d00000001.scope"


@pytest.fixture
def bus(tmp_path: Path) -> Iterator[str]:
    """A system bus with polkitd on it, which has our rule beside the machine's own."""
    if os.geteuid() != 0 or not POLKITD.exists() or not Path(RULES).is_dir():
        pytest.skip("it needs root and polkitd")
    if not Path("/usr/share/polkit-1/actions/org.freedesktop.systemd1.policy").exists():
        pytest.skip("systemd's actions are not installed")
    rules = tmp_path / "rules"
    rules.mkdir(mode=0o755)
    text = RULE.read_text()
    assert f'"{ITS_USER}"' in text
    (rules / RULE.name).write_text(text.replace(f'"{ITS_USER}"', f'"{OUR_USER}"'))
    # polkitd is another user, who may not look into this folder: an abstract address.
    address = f"unix:abstract={tmp_path}"
    config = tmp_path / "bus.conf"
    config.write_text(BUS.format(listen=address))
    env = {**os.environ, "DBUS_SYSTEM_BUS_ADDRESS": address}
    inside = f"mount --bind {rules} {RULES} && exec {POLKITD}"
    with (
        subprocess.Popen(["dbus-daemon", "--nofork", f"--config-file={config}"]) as daemon,
        subprocess.Popen(
            ["unshare", "--mount", "sh", "-c", inside], env=env, stdout=subprocess.DEVNULL
        ) as polkitd,
    ):
        try:
            wait_until(lambda: _has_polkit(address), "polkitd is there")
            yield address
        finally:
            polkitd.terminate()
            daemon.terminate()


def _has_polkit(address: str) -> bool:
    try:
        with open_dbus_connection(address) as connection:
            name = "org.freedesktop.PolicyKit1"
            return bool(Proxy(message_bus, connection).NameHasOwner(name)[0])
    except OSError:
        return False


@pytest.fixture
def asking() -> Iterator[int]:
    """A process of the user that the rule is for."""
    with subprocess.Popen([shutil.which("cat")], user=OUR_USER, stdin=subprocess.PIPE) as process:
        yield process.pid
        process.stdin.close()


def may(bus: str, pid: int, action: str, unit: str, verb: str) -> bool:
    details = ["--detail", "unit", unit, "--detail", "verb", verb]
    command = ["pkcheck", "--action-id", action, "--process", str(pid), *details]
    env = {**os.environ, "DBUS_SYSTEM_BUS_ADDRESS": bus}
    done = subprocess.run(command, env=env, capture_output=True, timeout=30)
    assert done.returncode in (0, 1, 2), done.stderr
    return done.returncode == 0


def test_it_lets_the_agent_change_scopes_of_machines_and_nothing_else(bus, asking):
    assert may(bus, asking, MANAGE, SCOPE, "set-property")
    for action, unit, verb in (
        (MANAGE, SCOPE, "stop"),
        (MANAGE, "libvirtd.service", "set-property"),
        (MANAGE, "machine.slice", "set-property"),
        (MANAGE, f"{SCOPE}.service", "set-property"),
        (MANAGE, f"x-{SCOPE}", "set-property"),
        ("org.freedesktop.systemd1.manage-unit-files", SCOPE, "set-property"),
    ):
        assert not may(bus, asking, action, unit, verb)


def test_it_lets_nobody_else(bus):
    with subprocess.Popen(["cat"], user="daemon", stdin=subprocess.PIPE) as other:
        assert not may(bus, other.pid, MANAGE, SCOPE, "set-property")
        other.stdin.close()
