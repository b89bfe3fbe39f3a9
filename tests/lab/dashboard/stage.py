# SPDX-License-Identifier: Apache-2.0
"""Two tenants on one host of a lab with Horizon, and what the command line and a browser show."""

import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from lxml import html

from testbed.lab import cloud, settings
from tests.dashboard.dashboard import Shown
from tests.lab.hosts import (
    HOSTS,
    is_degraded_at_cache,
    placement,
    wait_for_vp,
    wait_until_homed,
    wait_until_measured,
)
from tests.openstack_shell import Shell

HOST, OTHER = HOSTS
LAB = str(settings.LAB / "lab")
BROWSER = (str(settings.ROOT / "tools" / "install-debian-packages"), "screenshots")
OWNER, NEIGHBOUR = "tenant-a", "tenant-b"
PERMIT = {"vp:llc_permit": "20000"}
AGES = {"Age", "age_s"}
"""Of a report: another at any two moments."""
DEADLINE_S = 300
PROPOSALS = "/admin/vp_proposals/"

Comparison = Callable[[Callable[[str], Any], Shown], None]


def bring_up() -> None:
    """Horizon in the lab, and the browser."""
    subprocess.run(BROWSER, check=True)
    subprocess.run([LAB, "up", "--horizon"], check=True)


class Stage:
    """A database of one tenant and a batch job of another in one LLC domain, because a server with
    a permit fills the other one. The batch job computes until `disturb`, then it streams."""

    def __init__(self, admin: Any) -> None:
        self.admin = admin
        flavor = cloud.put_flavor(admin, "t.permit", vcpus=2, ram=128, specs=PERMIT)
        self.other = cloud.boot(admin, "web", flavor, "work=compute", host=HOST)
        wait_until_homed(HOST, self.other.id)
        with _alone(admin):
            self.victim = self._boot(OWNER, "shop-db", "chase:384")
            self.noisy = self._boot(NEIGHBOUR, "batch", "compute@4,stream:8192")
        admin.compute.pause_server(self.noisy)
        wait_until_measured(HOST, self.victim.id, state=0)

    def disturb(self) -> None:
        self.admin.compute.wait_for_server(self.noisy, status="PAUSED", wait=60, interval=0.2)
        self.admin.compute.unpause_server(self.noisy)
        wait_for_vp(HOST, self.victim.id, "the harm", is_degraded_at_cache, DEADLINE_S)

    def wait_for_a_proposal(self, shell: Shell) -> None:
        listing = "action list --result proposed"
        cloud.wait_for(lambda: Told(shell, "admin")(listing), "a proposal", deadline_s=DEADLINE_S)

    def is_mended(self, shell: Shell) -> bool:
        """By the command line's word."""
        done = Told(shell, "admin")(f"action list --server {self.victim.id}")
        return "mended" in [one["Result"] for one in done]

    def _boot(self, tenant: str, name: str, work: str) -> Any:
        server = cloud.boot(cloud.connect(tenant), name, "vp.tiny", f"work={work}")
        wait_until_homed(HOST, server.id)
        return server

    def are_apart(self) -> bool:
        """By the kernel's word."""
        return not placement(self.victim.id) & placement(self.noisy.id)


@contextmanager
def _alone(admin: Any) -> Iterator[None]:
    """Tenants cannot choose a host: the one takes servers while they ask."""
    [service] = admin.compute.services(binary="nova-compute", host=OTHER)
    admin.compute.disable_service(service)
    try:
        yield
    finally:
        admin.compute.enable_service(service)


def environment(user: str) -> dict[str, str]:
    """Of a shell in which this user works."""
    return {**settings.base_environment(), **settings.admin_environment(user)}


class Told:
    """What `openstack vp COMMAND -f json` says to a user, without ages. Kept until `ask_again`."""

    def __init__(self, shell: Shell, user: str) -> None:
        self._shell = shell
        self._environment = environment(user)
        self.answers: dict[str, Any] = {}

    def __call__(self, command: str) -> Any:
        if command not in self.answers:
            self.answers[command] = self._ask(command)
        return self.answers[command]

    def ask_again(self) -> bool:
        """Whether all answers are as they were."""
        before = self.answers
        self.answers = {command: self._ask(command) for command in before}
        return self.answers == before

    def _ask(self, command: str) -> Any:
        return _without_ages(self._shell.run(f"vp {command} -f json", self._environment).json)


def _without_ages(told: Any) -> Any:
    match told:
        case dict():
            return {key: _without_ages(value) for key, value in told.items() if key not in AGES}
        case list():
            return [_without_ages(one) for one in told]
    return told


def compare(page: Any, path: str, comparison: Comparison, told: Told) -> None:
    """The page has the numbers of the command line. Hosts report all the time, so that a page may
    be newer than what the command line said: it differs if the command line says the same before
    and after it.
    """
    is_before = False

    def is_same() -> bool:
        nonlocal is_before
        shown, known = opened(page, path), set(told.answers)
        try:
            comparison(told, shown)
        except AssertionError:
            is_known = is_before and known == set(told.answers)
            if told.ask_again() and is_known:
                raise
            is_before = True
            return False
        return True

    cloud.wait_for(is_same, f"{path} to show what the command line says", deadline_s=DEADLINE_S)


def opened(page: Any, path: str) -> Shown:
    answer = page.goto(path)
    text = page.content()
    return Shown(answer.status, html.fromstring(text), text)


def accept_a_proposal(page: Any) -> None:
    """In the browser. The agent may withdraw one for a better one while it is read."""

    def is_accepted() -> bool:
        page.goto(f"{PROPOSALS}?host={HOST}")
        boxes = page.locator("#vp-proposals input[type='checkbox']")
        if not boxes.count():
            return False
        boxes.first.check()
        with page.expect_navigation():
            page.get_by_role("button", name="Accept the ticked proposals").click()
        return bool(page.locator(".alert-success").count())

    cloud.wait_for(is_accepted, "a proposal to be accepted", deadline_s=DEADLINE_S)
