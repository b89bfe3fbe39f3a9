# SPDX-License-Identifier: Apache-2.0
"""An application of three servers calls its overlay as `first-overlay.md` has it: the page's own
commands and its own code, with an application credential, until the kernel limits a server."""

import json
import os
import re
import subprocess
import sys
from contextlib import ExitStack, contextmanager

import pytest

from testbed.lab import cloud, settings
from tests.lab.hosts import HOSTS, cgroup_values, set_mode, wait_until_homed
from tests.lab.operators import answering_calls, openstack

TENANT = "tenant-a"
PAGE = settings.ROOT / "doc/source/first-overlay.md"
TIERS = ("web-1", "app-1", "db-1")
CREDENTIAL = "shop-overlay"
DRIVEN = "import sys\n\nserve(iter(sys.stdin.readline, ''), lambda path: None)\n"


class Server:
    def __init__(self, admin, name):
        booted = cloud.boot(cloud.connect(TENANT), name, "t.shop", "work=idle")
        seen = admin.compute.get_server(booted.id)
        self.id, self.host, self.instance = booted.id, seen.compute_host, seen.instance_name
        wait_until_homed(self.host, self.id)
        self.before = self.limits()

    def limits(self):
        """By the kernel. Where its vCPUs run may change meanwhile."""
        found = cgroup_values(self.host, self.instance)
        return {file: value for file, value in found.items() if not file.endswith("cpuset.cpus")}

    def wait_until_lowered(self):
        cloud.wait_for(
            lambda: self.limits() != self.before, "the kernel to limit it", deadline_s=60
        )

    def wait_until_given_back(self):
        cloud.wait_for(lambda: self.limits() == self.before, "its own limits", deadline_s=60)


@pytest.fixture(scope="module")
def shop(admin):
    cloud.put_flavor(admin, "t.shop", specs={"vp:isolation": "soft"})
    with ExitStack() as stack:
        for host in HOSTS:
            stack.enter_context(answering_calls(host))
        yield {name: Server(admin, name) for name in TIERS}
        for host in HOSTS:
            set_mode(host, "advise")


def test_the_first_overlay_of_the_documentation(shop, tmp_path):
    web, _, db = shop.values()
    servers = [word for name in TIERS for word in ("--server", name)]
    cloud.wait_for(
        lambda: vp("overlay", "create", "shop", *servers).returncode == 0,
        "vp-api to know the servers",
        deadline_s=60,
    )
    told = json.loads(vp("overlay", "show", "shop", "-f", "json").stdout)
    assert {one.id for one in shop.values()} <= set(re.findall(r"[0-9a-f-]{36}", str(told)))
    call = ("overlay", "call", "shop", "tune", "--server", "db-1", "--direction", "down")
    cloud.wait_for(
        lambda: json.loads(vp(*call, "--lease-s", "60", "-f", "json").stdout)["granted"],
        "the first call to be granted",
        deadline_s=60,
    )
    db.wait_until_lowered()
    assert vp("overlay", "call", "shop", "release").returncode == 0
    db.wait_until_given_back()
    with application(shop, tmp_path) as asked:
        asked.stdin.write("/bid/1\n" * 20)
        asked.stdin.flush()
        web.wait_until_lowered()
        asked.stdin.close()
        assert asked.wait(60) == 0
    web.wait_until_given_back()
    assert vp("overlay", "delete", "shop").returncode == 0


def vp(*argv):
    return openstack("vp", *argv, user=TENANT)


@contextmanager
def application(shop, folder):
    """The page's code, which is asked for what stands in each line of its input."""
    code = next(block for block in blocks("python") if "serve(" in block)
    for name, one in zip(("WEB", "APP", "DB"), shop.values(), strict=True):
        code = re.sub(rf'^{name} = "[^"]*"', f'{name} = "{one.id}"', code, flags=re.MULTILINE)
    file = folder / "shop.py"
    file.write_text(f"{code}\n{DRIVEN}")
    command = [sys.executable, str(file)]
    environment = {**os.environ, **credential(folder)}
    with subprocess.Popen(command, stdin=subprocess.PIPE, text=True, env=environment) as running:
        try:
            yield running
        finally:
            running.kill()
            openstack("application", "credential", "delete", CREDENTIAL, user=TENANT)


def credential(folder):
    rules = folder / "access-rules.json"
    rules.write_text(next(block for block in blocks("json") if "/calls" in block))
    made = openstack(
        *("application", "credential", "create", CREDENTIAL, "--role", "member"),
        *("--access-rules", str(rules), "-f", "json"),
        user=TENANT,
    )
    assert made.returncode == 0, made.stderr
    # The case of the keys depends on the release of the client.
    told = {key.lower(): value for key, value in json.loads(made.stdout).items()}
    return {
        "OS_AUTH_TYPE": "v3applicationcredential",
        "OS_AUTH_URL": settings.KEYSTONE_URL,
        "OS_APPLICATION_CREDENTIAL_ID": told["id"],
        "OS_APPLICATION_CREDENTIAL_SECRET": told["secret"],
    }


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
