# SPDX-License-Identifier: Apache-2.0
"""What the guide takes for given: RabbitMQ, MariaDB, memcached and keystone, libvirt, and Nova.

All from Debian, but keystone, Nova and `openstack`: these are in a Python environment of their own.
"""

from testbed.lab.waiting import wait_for
from tests.install.machine import ROOT, Machine

PASSWORD = "secret"
START_DEADLINE_S = 300.0
OPENSTACK = "/opt/openstack"
"""Where an operator has Nova, whose environment is not ours."""
ADMIN = {
    "OS_AUTH_URL": "http://controller:5000/v3",
    "OS_USERNAME": "admin",
    "OS_PASSWORD": PASSWORD,
    "OS_PROJECT_NAME": "admin",
    "OS_USER_DOMAIN_NAME": "Default",
    "OS_PROJECT_DOMAIN_NAME": "Default",
    "PATH": f"{OPENSTACK}/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "PYTHONWARNINGS": "ignore",
}
KEYSTONE = """
[database]
connection = mysql+pymysql://keystone:secret@controller/keystone
[token]
provider = fernet
[fernet_tokens]
key_repository = /etc/keystone/keys
[fernet_receipts]
key_repository = /etc/keystone/keys
[credential]
key_repository = /etc/keystone/keys
[identity]
password_hash_rounds = 4
"""
SCHEMA = (
    "CREATE DATABASE keystone CHARACTER SET utf8mb4",
    "CREATE USER keystone@'%' IDENTIFIED BY 'secret'",
    "GRANT ALL PRIVILEGES ON keystone.* TO keystone@'%'",
)
PACKAGES = {
    "controller": "rabbitmq-server mariadb-server memcached python3-venv",
    "compute-17": "libvirt-daemon-system libvirt-clients polkitd qemu-system-x86",
}
FROM_INDEX = "keystone nova python-openstackclient pymysql python-memcached waitress"
SWITCH = "/proc/sys/kernel/perf_event_paranoid"
OWN_SWITCH = f"cp {SWITCH} /run/switch && mount --bind /run/switch {SWITCH}"
"""The kernel's switches are this host's: the guide gets a file in the place of the one it sets."""


def install_packages(machine: Machine) -> None:
    install = "DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends"
    _do(machine, f"apt-get update -q && {install} {PACKAGES[machine.name]}")


def give_libvirt(machine: Machine) -> None:
    install_packages(machine)
    _do(machine, OWN_SWITCH)
    _do(machine, "systemctl is-active libvirtd")


def give_services(machine: Machine) -> None:
    install_packages(machine)
    _do(machine, f"python3 -m venv {OPENSTACK}")
    _do(machine, f"{OPENSTACK}/bin/pip install -q -c constraints.txt {FROM_INDEX}")
    for statement in SCHEMA:
        _do(machine, f'mariadb -e "{statement}"')
    _give_keystone(machine)
    _do(machine, "openstack project create service", ADMIN)
    _do(machine, "useradd --system nova && install -d /etc/nova")


def _give_keystone(machine: Machine) -> None:
    machine.write("/etc/keystone/keystone.conf", KEYSTONE)
    keys = "from cryptography.fernet import Fernet as F; print(F.generate_key().decode(), end='')"
    _do(machine, "install -d -m 700 /etc/keystone/keys")
    for number in (0, 1):
        _do(machine, f'python -c "{keys}" >/etc/keystone/keys/{number}', ADMIN)
    _do(machine, "keystone-manage db_sync", ADMIN)
    kinds = ("admin", "internal", "public")
    urls = " ".join(f"--bootstrap-{kind}-url http://controller:5000/v3" for kind in kinds)
    names = f"--bootstrap-password {PASSWORD} --bootstrap-region-id RegionOne"
    _do(machine, f"keystone-manage bootstrap {names} {urls}", ADMIN)
    unit = f"--quiet --unit=keystone --setenv=PYTHONPATH={ROOT}"
    serve = f"{OPENSTACK}/bin/python -m testbed.lab.serve keystone.wsgi.api 127.0.0.1 5000 8"
    _do(machine, f"systemd-run {unit} {serve}")
    wait_for(
        lambda: machine.run("curl -sf http://controller:5000/v3").returncode == 0,
        "keystone",
        deadline_s=START_DEADLINE_S,
        interval_s=1.0,
    )


def _do(machine: Machine, command: str, environment: dict[str, str] | None = None) -> None:
    done = machine.run(command, environment)
    assert done.returncode == 0, f"{command}\n{done.stdout}"
