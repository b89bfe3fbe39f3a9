# SPDX-License-Identifier: Apache-2.0
"""An upgrade, step by step as the installation guide has it, and a controller's way back.

The tests depend on their order: each goes on with the processes that the one before has left.
"""

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import count
from typing import Any

import pytest

from nova_vp import wire
from tests.overlay_agent import AgentMonitor
from tests.upgrade.releases import Release, former_release, this_release
from tests.upgrade.two_machines import HOST, TENANT, Site, a_site
from tests.waiting import wait_until

WITHIN_S = 60.0
"""What has to get from one process to another."""
ELSEWHERE = "99999999-9999-4999-8999-999999999999"
"""A server of no host."""
NEW = this_release()
_numbers = count(1)


@pytest.fixture(scope="module")
def old() -> Release:
    return former_release()


@pytest.fixture(scope="module")
def site(old: Release, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with a_site(tmp_path_factory.mktemp("upgrade"), old) as site:
        yield site


class Standing:
    """What has been ordered and stored so far; nothing of it may go."""

    def __init__(self, site: Site) -> None:
        modes = site.told("GET", "/modes")["modes"]
        self.modes = {one["name"]: one["mode"] for one in modes}
        self.overrides = site.told("GET", f"/vps/{site.server}")["vp"]["overrides"]
        overlays = site.told("GET", "/overlays")["overlays"]
        self.overlays = {one["name"]: (one["target"], one["servers"]) for one in overlays}
        history = site.told("GET", f"/hosts/{HOST}/history")["history"]
        self.minutes = {one["at"] for one in history}

    def check(self, site: Site) -> None:
        now = Standing(site)
        assert now.modes.items() >= self.modes.items()
        assert (now.overrides, now.overlays) == (self.overrides, self.overlays)
        assert now.minutes >= self.minutes


def is_shown(site: Site, mode: str) -> bool:
    host = site.host()
    return host is not None and host["mode"] == mode and not host["is_stale"]


def report(site: Site, agent: Release) -> Any:
    """What the agent would report now."""
    return wait_until(lambda: site.status(agent), "the agent to look at its host", WITHIN_S)


def check_orders(site: Site, agent: Release) -> None:
    """One of each kind reaches the agent, and its reports of them are stored and shown."""
    number = next(_numbers)
    for mode in ("advise", "enforce"):
        site.told("PATCH", f"/hosts/{HOST}", {"mode": mode})
        wait_until(lambda m=mode: is_shown(site, m), f"mode {mode} to be reported", WITHIN_S)
    rack = f"rack {number}"
    site.told("PUT", "/modes/aggregates", {"aggregate": rack, "mode": "enforce"})
    wait_until(lambda: rack in levels(report(site, agent)), "vp-scheduler to tell it", WITHIN_S)
    changed = site.told("PATCH", f"/vps/{site.server}", {"priority": number})
    assert changed["vp"]["is_told"]
    wait_until(lambda: priority(report(site, agent)) == number, "the override", WITHIN_S)
    check_overlay(site, agent, number)


def levels(report: Any) -> set[str]:
    return {one["name"] for one in report["modes"]["levels"]}


def priority(report: Any) -> Any:
    [vp] = report["vps"]
    return vp.get("override", {}).get("priority")


def check_overlay(site: Site, agent: Release, number: int) -> None:
    [shop] = site.told("GET", "/overlays")["overlays"] or [create_overlay(site)]
    told = report(site, agent)["overlays_told"]["version"]
    site.told("PATCH", f"/overlays/{shop['id']}", {"target": number}, TENANT)
    wait_until(
        lambda: report(site, agent)["overlays_told"]["version"] > told, "the target", WITHIN_S
    )
    tune = {"verb": "tune", "direction": "down", "server_id": site.server}
    # Refused for a while where the agent has put it back just now.
    wait_until(lambda: call(site, shop, tune)["granted"], "a grant", WITHIN_S)
    assert call(site, shop, {"verb": "release"})["granted"]
    [refused] = call(site, shop, {"verb": "borrow", "server_id": site.server, "cpus": 64})[
        "answers"
    ]
    assert (refused["granted"], refused["nack"]) == (False, "no-room")
    assert call_elsewhere(site, shop) in ("not-a-member", "unreachable", "disabled")


def create_overlay(site: Site) -> Any:
    asked = {"name": "shop", "servers": [site.server]}
    return site.told("POST", "/overlays", asked, TENANT)["overlay"]


def call(site: Site, shop: Any, asked: Any) -> Any:
    return site.told("POST", f"/overlays/{shop['id']}/calls", asked, TENANT)["call"]


def call_elsewhere(site: Site, shop: Any) -> Any:
    """Why a monitor on the host is refused that calls for a server that is not there."""
    with closing(AgentMonitor(site.agent_folder)) as monitor:
        asked = {"verb": "tune", "direction": "down", "server_id": ELSEWHERE}
        return monitor.ask(overlay_id=shop["id"], **asked)["nack"]


def wait_until_placed(site: Site, answer: str) -> None:
    """By the digests that nova-schedulers of both releases get, or by their absence."""
    wait_until(lambda: site.places() == [answer, answer], f"a strict server {answer}", WITHIN_S)


@contextmanager
def operators_busy(site: Site) -> Iterator[Counter[int]]:
    """Who order and ask all the time. Yields the answers by status; what is acknowledged stands in
    the end."""
    statuses: Counter[int] = Counter()
    is_over = threading.Event()
    ordered: dict[str, str] = {}

    def order() -> None:
        for number in count():
            if is_over.is_set():
                return
            name, mode = f"row {number % 5}", ("advise", "enforce")[number % 2]
            answer = site.ask("PUT", "/modes/aggregates", {"aggregate": name, "mode": mode})
            statuses[answer.status_code] += 1
            if answer.status_code == 200:
                ordered[name] = mode
            statuses[site.ask("GET", "/vps").status_code] += 1

    thread = threading.Thread(target=order)
    thread.start()
    try:
        yield statuses
    finally:
        is_over.set()
        thread.join()
    assert Standing(site).modes.items() >= ordered.items()
    # The host does not know in which aggregates it is, so that those of all hold.
    for name in ordered:
        site.told("PUT", "/modes/aggregates", {"aggregate": name, "mode": "enforce"})


def test_the_former_release_alone(site: Site, old: Release) -> None:
    """What fails here is not due to the upgrade."""
    site.scheduler.start(old)
    site.start_api(old)
    site.agent.start(old)
    for release, program in zip((old, NEW), site.nova_schedulers, strict=True):
        program.start(release)
    wait_until(lambda: site.host() is not None, "the first report to be stored", WITHIN_S)
    check_orders(site, old)
    wait_until_placed(site, "passed")


def test_the_schema_changes_while_the_former_services_run(site: Site, old: Release) -> None:
    stood = Standing(site)
    with operators_busy(site) as statuses:
        wait_until(lambda: statuses[200] > 20, "operators to be at it", WITHIN_S)
        site.manage(NEW, "db", "sync")
        before = statuses[200]
        wait_until(lambda: statuses[200] > before + 20, "operators to go on", WITHIN_S)
    assert set(statuses) <= {200, 503}
    checked = site.check_upgrade(NEW)
    assert checked.returncode in (0, 1), checked.stdout
    stood.check(site)
    check_orders(site, old)


def test_services_of_this_release_with_an_agent_of_the_former(site: Site, old: Release) -> None:
    stood = Standing(site)
    assert site.scheduler.stop() == 0
    site.grant_rights(NEW)
    site.told("PATCH", f"/hosts/{HOST}", {"mode": "advise"})
    wait_until(lambda: site.rabbitmq.waiting(wire.REPORT_TOPIC), "a report to wait", WITHIN_S)
    site.scheduler.start(NEW)
    wait_until(lambda: is_shown(site, "advise"), "it to be stored and shown", WITHIN_S)
    site.api.close()
    site.start_api(NEW)
    for release, program in zip((old, NEW), site.nova_schedulers, strict=True):
        program.close()
        program.start(release)
    stood.check(site)
    check_orders(site, old)
    wait_until_placed(site, "passed")


def test_an_agent_of_this_release_goes_on_where_the_former_one_ended(
    site: Site, old: Release
) -> None:
    stood, knew = Standing(site), report(site, old)
    assert site.agent.stop() == 0
    wait_until_placed(site, "refused")
    site.scheduler.stop()
    site.agent.start(NEW)
    knows = report(site, NEW)
    # By itself: nobody is there to tell it.
    assert levels(knows) == levels(knew)
    assert priority(knows) == priority(knew)
    assert knows["overlays_told"] == knew["overlays_told"]
    site.scheduler.start(NEW)
    wait_until_placed(site, "passed")
    stood.check(site)
    check_orders(site, NEW)
    [shop] = site.told("GET", "/overlays")["overlays"]
    # By vp-scheduler, whose account may listen to such calls by now; there is no Nova to ask.
    wait_until(lambda: call_elsewhere(site, shop) == "disabled", "an answer", WITHIN_S)


def test_a_controller_goes_back_to_the_former_release(site: Site, old: Release) -> None:
    """With the schema of this one, beside an agent of this one."""
    stood = Standing(site)
    assert site.scheduler.stop() == 0
    site.api.close()
    site.scheduler.start(old)
    site.start_api(old)
    for release, program in zip((old, NEW), site.nova_schedulers, strict=True):
        program.close()
        program.start(release)
    stood.check(site)
    check_orders(site, NEW)
    wait_until_placed(site, "passed")
    assert site.agent.stop() == 0
