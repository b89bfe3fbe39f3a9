# SPDX-License-Identifier: Apache-2.0
"""The real keystone on a loopback port, with SQLite: projects, users, application credentials."""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import requests
from cryptography.fernet import Fernet
from keystoneauth1.adapter import Adapter
from keystoneauth1.identity import V3Password
from keystoneauth1.session import Session

from tests.rabbitmq import free_port
from tests.waiting import wait_until

ROOT = Path(__file__).parents[1]
PASSWORD = "secret"
REGION = "RegionOne"
CONF = """[database]
connection = sqlite:///{folder}/keystone.sqlite
[fernet_tokens]
key_repository = {folder}/fernet
[fernet_receipts]
key_repository = {folder}/fernet
[credential]
key_repository = {folder}/credential
[identity]
password_hash_rounds = 4
"""
AUTH_CONFIGURATION = """
[keystone_authtoken]
auth_type = password
auth_url = {url}
www_authenticate_uri = {url}
username = nova-vp
password = {password}
project_name = service
user_domain_id = default
project_domain_id = default
"""
"""Of a vp-api with the user `nova-vp`; to be given `url` and `password`."""


class RealKeystone:
    def __init__(self, url: str, link: requests.Session) -> None:
        """`link`: whoever gives it closes it."""
        self.url = f"{url}/v3"
        auth = V3Password(**self.login("admin", "admin"))
        self._admin = Adapter(
            Session(auth=auth, session=link), service_type="identity", endpoint_override=self.url
        )

    def login(self, user: str, project: str) -> dict[str, str]:
        return {
            "auth_url": self.url,
            "username": user,
            "password": PASSWORD,
            "project_name": project,
            "user_domain_id": "default",
            "project_domain_id": "default",
        }

    def environment(self, user: str, project: str) -> dict[str, str]:
        """Of a shell in which this user works."""
        login = {f"OS_{name.upper()}": value for name, value in self.login(user, project).items()}
        return {
            "PATH": os.environ["PATH"],
            "HOME": "/nonexistent",
            "OS_REGION_NAME": REGION,
        } | login

    def id_of(self, kind: str, name: str) -> str | None:
        """`kind`: in the plural."""
        found = self._admin.get(f"/{kind}", params={"name": name}).json()[kind]
        return str(found[0]["id"]) if found else None

    def add_user(self, name: str, project: str, role: str) -> str:
        """With a project of that name. Returns the id of the project."""
        project_id = self.id_of("projects", project) or self._made("project", name=project)
        user_id = self._made("user", name=name, password=PASSWORD)
        there = f"/projects/{project_id}/users/{user_id}/roles/{self.id_of('roles', role)}"
        self._admin.put(there)
        return project_id

    def add_service(self, service_type: str, url: str) -> None:
        service_id = self._made("service", name=service_type, type=service_type)
        self._made("endpoint", service_id=service_id, interface="public", url=url, region_id=REGION)

    def _made(self, kind: str, **fields: str) -> str:
        return str(self._admin.post(f"/{kind}s", json={kind: fields}).json()[kind]["id"])


@contextmanager
def real_keystone(folder: Path) -> Iterator[RealKeystone]:
    for kind in ("fernet", "credential"):
        (folder / kind).mkdir(mode=0o700)
        for name in ("0", "1"):
            (folder / kind / name).write_bytes(Fernet.generate_key())
    conf = folder / "keystone.conf"
    conf.write_text(CONF.format(folder=folder))
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    _manage(conf, "db_sync")
    urls = [f"--bootstrap-{kind}-url={url}/v3" for kind in ("public", "internal")]
    secret, region = f"--bootstrap-password={PASSWORD}", f"--bootstrap-region-id={REGION}"
    _manage(conf, "bootstrap", secret, region, *urls)
    environment = {"OS_KEYSTONE_CONFIG_DIR": str(folder), "OS_KEYSTONE_CONFIG_FILES": conf.name}
    with _serving(folder / "keystone.log", str(port), environment) as server:

        def answers() -> bool:
            assert server.poll() is None, (folder / "keystone.log").read_text()[-2000:]
            with suppress(requests.ConnectionError):
                return requests.get(f"{url}/v3", timeout=30).ok
            return False

        wait_until(answers, "keystone to answer", deadline_s=120)
        with requests.Session() as link:
            yield RealKeystone(url, link)


def _manage(conf: Path, *arguments: str) -> None:
    argv = [str(Path(sys.executable).with_name("keystone-manage")), "--config-file", str(conf)]
    ran = subprocess.run(
        [*argv, *arguments], capture_output=True, text=True, timeout=300, check=False
    )
    assert ran.returncode == 0, ran.stderr[-2000:]


@contextmanager
def _serving(
    log: Path, port: str, environment: Mapping[str, str]
) -> Iterator["subprocess.Popen[bytes]"]:
    argv = [sys.executable, "-m", "testbed.lab.serve", "keystone.wsgi.api", "127.0.0.1", port, "2"]
    with open(log, "wb") as out:
        server = subprocess.Popen(
            argv,
            cwd=ROOT,
            env={**os.environ, "PYTHONWARNINGS": "ignore", **environment},
            stdout=out,
            stderr=out,
        )
    try:
        yield server
    finally:
        server.kill()
        server.wait()
