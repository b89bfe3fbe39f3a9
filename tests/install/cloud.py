# SPDX-License-Identifier: Apache-2.0
"""What the guide takes for given: RabbitMQ, MariaDB, memcached and keystone, and libvirt."""

from tests.install.machine import ROOT, Machine
from tests.install.systemd import Systemd
from tests.waiting import wait_until

PASSWORD = "secret"
BIN = ROOT / ".venv/bin"
ADMIN = {
    "OS_AUTH_URL": "http://controller:5000/v3",
    "OS_USERNAME": "admin",
    "OS_PASSWORD": PASSWORD,
    "OS_PROJECT_NAME": "admin",
    "OS_USER_DOMAIN_NAME": "Default",
    "OS_PROJECT_DOMAIN_NAME": "Default",
    "PATH": f"{BIN}:/usr/bin:/bin",
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
LIBVIRTD = """
unix_sock_group = "libvirt"
unix_sock_rw_perms = "0770"
auth_unix_rw = "none"
"""
"""Membership of the group is enough, as where polkit runs."""
SERVERS = (
    ["memcached", "-u", "memcache", "-l", "127.0.0.1"],
    ["install", "-d", "-o", "mysql", "/run/mysqld"],
    ["setpriv", "--reuid=mysql", "--regid=mysql", "--init-groups", "mariadbd"],
    ["rabbitmq-server"],
)
SCHEMA = (
    "CREATE DATABASE keystone CHARACTER SET utf8mb4",
    "CREATE USER keystone@'%' IDENTIFIED BY 'secret'",
    "GRANT ALL PRIVILEGES ON keystone.* TO keystone@'%'",
    # Debian's, for everybody who comes from another machine; here all come from this one.
    "DELETE FROM mysql.global_priv WHERE User = ''; FLUSH PRIVILEGES",
)

PACKAGES = {
    "controller": "rabbitmq-server mariadb-server memcached",
    "compute-17": "libvirt-daemon-system qemu-system-x86",
}


def install_packages(machine: Machine) -> None:
    """Into a fresh root; without their services, which `give_...` start."""
    machine.write("/usr/sbin/policy-rc.d", "exit 101\n")
    _do(machine, "chmod +x /usr/sbin/policy-rc.d && apt-get update -q", needs_internet=True)
    install = "DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends"
    _do(machine, f"{install} {PACKAGES[machine.name]}", needs_internet=True)


def give_libvirt(machine: Machine, systemd: Systemd) -> None:
    machine.write("/etc/libvirt/libvirtd.conf", LIBVIRTD)
    systemd.start("libvirtd.service")


def give_services(machine: Machine, systemd: Systemd) -> None:
    for argv in SERVERS:
        process = systemd.spawn(argv)
        if argv[0] == "install":
            process.wait()
    _wait_for(machine, "mariadb -e 'select 1'")
    _wait_for(machine, "rabbitmqctl await_startup --timeout 60")
    for statement in SCHEMA:
        _do(machine, f'mariadb -e "{statement}"')
    _give_keystone(machine, systemd)
    _do(machine, "openstack project create service", ADMIN)
    _do(machine, "install -d /etc/nova")


def _give_keystone(machine: Machine, systemd: Systemd) -> None:
    machine.write("/etc/keystone/keystone.conf", KEYSTONE)
    keys = "from cryptography.fernet import Fernet as F; print(F.generate_key().decode(), end='')"
    _do(machine, "install -d -m 700 /etc/keystone/keys")
    for number in (0, 1):
        _do(machine, f'{BIN}/python -c "{keys}" >/etc/keystone/keys/{number}')
    quiet = {"PYTHONWARNINGS": "ignore"}
    _do(machine, f"{BIN}/keystone-manage db_sync", quiet)
    kinds = ("admin", "internal", "public")
    urls = " ".join(f"--bootstrap-{kind}-url http://controller:5000/v3" for kind in kinds)
    names = f"--bootstrap-password {PASSWORD} --bootstrap-region-id RegionOne"
    _do(machine, f"{BIN}/keystone-manage bootstrap {names} {urls}", quiet)
    # The lab's, which a source distribution does not have.
    serve = ["env", f"PYTHONPATH={ROOT}", str(BIN / "python"), "-m", "testbed.lab.serve"]
    systemd.spawn([*serve, "keystone.wsgi.api", "127.0.0.1", "5000", "8"])
    _wait_for(machine, "curl -sf http://controller:5000/v3")


def _wait_for(machine: Machine, command: str) -> None:
    wait_until(lambda: machine.run(command, {}).returncode == 0, command, 120)


def _do(
    machine: Machine,
    command: str,
    environment: dict[str, str] | None = None,
    *,
    needs_internet: bool = False,
) -> None:
    done = machine.run(command, environment or {}, needs_internet=needs_internet)
    assert done.returncode == 0, f"{command}\n{done.stdout}"
