# SPDX-License-Identifier: Apache-2.0
"""MariaDB of the lab and the schemas in it.

Migrations, bootstrap and catalog take most of a first start, so their result is kept as a dump
in the cache, under a key of everything that shapes its rows. A file marks what is complete:
whatever a killed `lab up` left half made is made again.
"""

import hashlib
import shutil
import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from testbed.lab import controller, nova, processes, settings
from testbed.lab.errors import LabError
from testbed.lab.processes import CONTROLLER, Address, log_path, run

FOLDER = settings.RUN / "mariadb"
IS_MADE = settings.RUN / "mariadb.complete"
IS_FILLED = settings.RUN / "schemas.complete"
IS_OURS_FILLED = settings.RUN / "our-schema.complete"
CACHED = ("keystone", "placement", "glance", "nova_api", "nova_cell0", "nova_cell1")
OURS = "nova_vp"
CLIENT = (
    "--no-defaults",
    "--protocol=tcp",
    f"--host={settings.DATABASE_IP}",
    f"--port={settings.DATABASE_PORT}",
    "--user=root",
)
SERVER = (
    "--no-defaults",
    "--user=root",
    f"--datadir={FOLDER}",
    "--socket=mysql.sock",  # below datadir: an absolute path may exceed what a socket can have
    f"--bind-address={settings.DATABASE_IP}",
    f"--port={settings.DATABASE_PORT}",
    "--innodb-flush-log-at-trx-commit=0",
    "--innodb-doublewrite=0",
    "--innodb-buffer-pool-size=128M",
    "--innodb-log-file-size=48M",
    "--skip-log-bin",
    "--performance-schema=off",
    "--max-connections=400",
    "--character-set-server=utf8mb3",
    "--skip-name-resolve",
)


def ensure_running() -> None:
    if not IS_MADE.exists():
        shutil.rmtree(FOLDER, ignore_errors=True)
        FOLDER.mkdir(parents=True)
        log = log_path(CONTROLLER, "mariadb-install")
        install = ("mysql_install_db", "--no-defaults", f"--datadir={FOLDER}", "--user=root")
        run(*install, "--auth-root-authentication-method=normal", "--skip-test-db", log=log)
        IS_MADE.touch()
    processes.ensure_service(CONTROLLER, controller.service("mariadb", ("mysqld", *SERVER)))
    address = Address("mariadb", CONTROLLER)
    processes.wait_until_ready(
        address, lambda: accepts(settings.DATABASE_IP, settings.DATABASE_PORT), deadline_s=120
    )


def accepts(address: str, port: int) -> bool:
    with suppress(OSError):
        socket.create_connection((address, port), 1).close()
        return True
    return False


def is_filled() -> bool:
    return IS_FILLED.exists()


def mark_filled() -> None:
    IS_FILLED.touch()


def create_empty() -> None:
    statements = "".join(
        f"drop database if exists {name}; create database {name} character set utf8mb3; "
        for name in (*CACHED, OURS)
    )
    run("mysql", *CLIENT, "-e", statements)


def dump_path() -> Path:
    """The cached dump that fits: same packages, same catalog, same addresses and passwords."""
    environment = nova.chosen().folder
    packages = sorted(
        path.name
        for folder in {settings.VENV, environment}
        for path in folder.glob("lib/python3*/site-packages/*.dist-info")
    )
    sources = ("settings.py", "cloud_resources.py", "conf/nova.conf", "conf/keystone.conf")
    texts = [(settings.LAB / name).read_text() for name in sources]
    # Paths of this checkout are no part of any row.
    key = hashlib.sha256("\n".join(packages + texts).encode()).hexdigest()[:12]
    return settings.CACHE / f"schemas-{environment.name}-{key}.sql"


def load_dump() -> None:
    run("mysql", *CLIENT, stdin=dump_path())


def save_dump() -> None:
    path = dump_path()
    for stale in settings.CACHE.glob(f"schemas-{nova.chosen().folder.name}-*.sql"):
        stale.unlink()
    settings.CACHE.mkdir(exist_ok=True)
    fresh = path.with_suffix(".new")
    run("mysqldump", *CLIENT, f"--result-file={fresh}", "--databases", *CACHED)
    fresh.replace(path)


def migrate_all() -> None:
    """Every service's migrations, in parallel as far as they do not share a database."""
    with ThreadPoolExecutor() as pool:
        for done in [pool.submit(job) for job in (_keystone, _nova, _placement_and_glance)]:
            done.result()


def ensure_ours() -> None:
    """Our own schema, once per lab: it is young and changes more often than the cached dump."""
    if controller.is_installed("vp-manage") and not IS_OURS_FILLED.exists():
        manage("vp-manage", "nova-vp.conf", "db", "sync")
        IS_OURS_FILLED.touch()


def _keystone() -> None:
    url = settings.KEYSTONE_URL
    manage("keystone-manage", "keystone.conf", "db_sync")
    interfaces = [f"--bootstrap-{kind}-url={url}" for kind in ("admin", "internal", "public")]
    bootstrap = ("bootstrap", f"--bootstrap-password={settings.PASSWORD}", *interfaces)
    manage(
        "keystone-manage", "keystone.conf", *bootstrap, f"--bootstrap-region-id={settings.REGION}"
    )


def _nova() -> None:
    program = nova.chosen().program("nova-manage")
    manage(program, "nova.conf", "api_db", "sync")
    cell0 = settings.database_url("nova_cell0")
    manage(program, "nova.conf", "cell_v2", "map_cell0", f"--database_connection={cell0}")
    manage(program, "nova.conf", "cell_v2", "create_cell", "--name=cell1")
    manage(program, "nova.conf", "db", "sync")


def _placement_and_glance() -> None:
    manage("placement-manage", "placement.conf", "db", "sync")
    manage("glance-manage", "glance-api.conf", "db_sync")


def manage(program: str, config: str, *argv: str) -> None:
    log = log_path(CONTROLLER, Path(program).name)
    try:
        run(program, "--config-file", str(settings.ETC / config), *argv, log=log)
    except LabError as error:
        raise LabError(f"{program} {' '.join(argv[:2])} failed", log) from error
