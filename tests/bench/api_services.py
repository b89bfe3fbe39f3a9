# SPDX-License-Identifier: Apache-2.0
"""What the API's benchmark runs on: MariaDB, keystone itself, vp-api twice, Placement beside them.

Each is a process of its own with the configuration that an operator would give it.
"""

import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import requests
from cryptography.fernet import Fernet
from oslo_config import cfg

from nova_vp.cmd import manage
from tests import identities
from tests.bench.harness import progress
from tests.mariadb import MariaDB
from tests.waiting import wait_until

PASSWORD = "secret"
BIN = Path(sys.executable).parent
SERVER = ("--innodb-buffer-pool-size=2G", "--innodb-flush-log-at-trx-commit=2")
KEYSTONE = """
[database]
connection = {database}
[token]
provider = fernet
[fernet_tokens]
key_repository = {folder}/keys
[fernet_receipts]
key_repository = {folder}/keys
[credential]
key_repository = {folder}/keys
[identity]
password_hash_rounds = 4
"""
AUTHTOKEN = """
[keystone_authtoken]
auth_type = password
auth_url = {keystone}/v3
www_authenticate_uri = {keystone}/v3
username = admin
password = secret
project_name = admin
user_domain_id = default
project_domain_id = default
"""
OURS = """
[database]
connection = {database}
[bus]
transport_url = fake:/
keys_directory = {keys}
"""
PLACEMENT = """
[api]
auth_strategy = keystone
[placement_database]
connection = {database}
"""


@dataclass(frozen=True, slots=True)
class Services:
    mariadb: MariaDB
    conf: cfg.ConfigOpts
    keystone: str
    apis: tuple[str, ...]
    placement: str
    placement_database: str
    pids: Mapping[str, tuple[int, ...]]


@contextlib.contextmanager
def running(folder: Path, apis: int, more: str = "") -> Iterator[Services]:
    """`more`: what else stands in the file of vp-api."""
    with ExitStack() as stack:
        mariadb = MariaDB(folder, SERVER)
        mariadb.start()
        stack.callback(mariadb.stop)
        keystone = _keystone(stack, folder, mariadb)
        progress("keystone runs")
        conf = _our_conf(folder, mariadb, keystone, more)
        served = [
            _serve(stack, folder, "vp_api.wsgi", {"OS_NOVA_VP_CONFIG_DIR": str(folder)})
            for _ in range(apis)
        ]
        database = mariadb.make_database("placement")
        placement = _placement(stack, folder, database, keystone)
        yield Services(
            mariadb=mariadb,
            conf=conf,
            keystone=keystone,
            apis=tuple(url for url, _ in served),
            placement=placement,
            placement_database=database,
            pids={"api": tuple(pid for _, pid in served), "database": (mariadb.pid,)},
        )


def _our_conf(folder: Path, mariadb: MariaDB, keystone: str, more: str) -> cfg.ConfigOpts:
    file = folder / "nova-vp.conf"
    database = mariadb.make_database("nova_vp")
    file.write_text(
        OURS.format(database=database, keys=identities.keys_directory())
        + AUTHTOKEN.format(keystone=keystone)
        + more
    )
    manage.main(["--config-file", str(file), "db", "sync"])
    conf = cfg.ConfigOpts()
    conf(["--config-file", str(file)])
    return conf


def _keystone(stack: ExitStack, folder: Path, mariadb: MariaDB) -> str:
    keys = folder / "keys"
    keys.mkdir(mode=0o700)
    for name in ("0", "1"):
        (keys / name).write_bytes(Fernet.generate_key())
    file = folder / "keystone.conf"
    database = mariadb.make_database("keystone")
    file.write_text(KEYSTONE.format(database=database, folder=folder))
    _run("keystone-manage", "--config-file", str(file), "db_sync")
    environment = {
        "OS_KEYSTONE_CONFIG_DIR": str(folder),
        "OS_KEYSTONE_CONFIG_FILES": "keystone.conf",
    }
    url, _ = _serve(stack, folder, "keystone.wsgi.api", environment)
    bootstrap = ("bootstrap", f"--bootstrap-password={PASSWORD}", "--bootstrap-region-id=bench")
    urls = (f"--bootstrap-{kind}-url={url}/v3" for kind in ("admin", "internal", "public"))
    _run("keystone-manage", "--config-file", str(file), *bootstrap, *urls)
    return url


def _placement(stack: ExitStack, folder: Path, database: str, keystone: str) -> str:
    file = folder / "placement.conf"
    file.write_text(PLACEMENT.format(database=database) + AUTHTOKEN.format(keystone=keystone))
    _run("placement-manage", "--config-file", str(file), "db", "sync")
    environment = {"OS_PLACEMENT_CONFIG_DIR": str(folder)}
    return _serve(stack, folder, "placement.wsgi.api", environment)[0]


def _serve(
    stack: ExitStack, folder: Path, module: str, environment: Mapping[str, str]
) -> tuple[str, int]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    argv = (sys.executable, "-m", "testbed.lab.serve", module, "127.0.0.1", str(port), "8")
    with (folder / f"{module}.log").open("ab") as log:
        process = subprocess.Popen(
            argv,
            env={**os.environ, **environment, "PYTHONWARNINGS": "ignore"},
            stdout=log,
            stderr=log,
        )
    stack.callback(process.wait)
    stack.callback(process.terminate)
    url = f"http://127.0.0.1:{port}"
    wait_until(lambda: _answers(process, url), f"{module} to answer", deadline_s=120)
    return url, process.pid


def _answers(process: "subprocess.Popen[bytes]", url: str) -> bool:
    assert process.poll() is None, "it ended: its log stands in the benchmark's folder"
    with contextlib.suppress(requests.ConnectionError):
        return requests.get(url, timeout=60).status_code < 500
    return False


def _run(*argv: str) -> None:
    subprocess.run(
        [str(BIN / argv[0]), *argv[1:]],
        check=True,
        stdout=subprocess.DEVNULL,
        env={**os.environ, "PYTHONWARNINGS": "ignore"},
    )


@dataclass(frozen=True, slots=True)
class Token:
    text: str
    project_id: str


def token(keystone: str, user: str, project: str) -> Token:
    domain = {"id": "default"}
    password = {"user": {"name": user, "domain": domain, "password": PASSWORD}}
    asked = {
        "identity": {"methods": ["password"], "password": password},
        "scope": {"project": {"name": project, "domain": domain}},
    }
    answer = requests.post(f"{keystone}/v3/auth/tokens", json={"auth": asked}, timeout=60)
    answer.raise_for_status()
    project_id = answer.json()["token"]["project"]["id"]
    return Token(answer.headers["X-Subject-Token"], project_id)


def make_member(keystone: str, admin: Token, name: str) -> Token:
    """Of a new project of that name."""
    call = partial(_call, keystone, admin)
    project = call("POST", "projects", project={"name": name, "domain_id": "default"})
    user = {"name": name, "password": PASSWORD, "domain_id": "default"}
    made = call("POST", "users", user=user)["user"]
    (role,) = call("GET", "roles?name=member")["roles"]
    project_id = project["project"]["id"]
    call("PUT", f"projects/{project_id}/users/{made['id']}/roles/{role['id']}")
    return token(keystone, name, name)


def list_in_catalog(keystone: str, admin: Token, service_type: str, url: str) -> None:
    call = partial(_call, keystone, admin)
    service = call("POST", "services", service={"type": service_type, "name": service_type})
    of = {"service_id": service["service"]["id"], "region_id": "bench"}
    call("POST", "endpoints", endpoint={**of, "interface": "public", "url": url})


def _call(keystone: str, admin: Token, method: str, path: str, **body: Any) -> Any:
    headers = {"X-Auth-Token": admin.text}
    answer = requests.request(
        method, f"{keystone}/v3/{path}", json=body or None, headers=headers, timeout=60
    )
    answer.raise_for_status()
    return answer.json() if answer.content else None
