# SPDX-License-Identifier: Apache-2.0
"""The first sentence of a server's page in each state: what it loses, since when, what is done."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.dashboard.dashboard import User, words
from tests.unit.api import cloud

Report = Callable[..., None]
TENANTS = f"/project/vp_performance/{cloud.VICTIM}/"
OPERATORS = f"/admin/vp_servers/{cloud.VICTIM}/"
LOSES = "loses about 20% to a neighbour since 2026-01-02 03:02 UTC; "


def a_host(age_s: float = 3, loss_ratio: float | None = 0.21349, **changes: Any) -> Any:
    """With the degraded server; `changes`: of the report."""
    own = changes.pop("vp", {})
    found = {"kind": "cache", "since": cloud.NOW_S - 70, "suspects": [], "refused": []}
    told = found if loss_ratio is None else {**found, "loss_ratio": loss_ratio}
    vps = [cloud.a_vp(**{"interference": told, **own}), cloud.a_vp(uuid=cloud.NOISY, name="noisy")]
    return cloud.a_record(age_s=age_s, vps=vps, **changes)


def escalated() -> list[dict[str, Any]]:
    [one] = cloud.under_way()["escalations"]
    return [one]


STATES = {
    "undisturbed": (a_host(vp={"interference": None}), "loses nothing to others"),
    "not measured": (
        a_host(vp={"interference": None, "state": None, "since": None, "incomplete": "idle"}),
        "not known now: it is not measured now",
    ),
    "stale": (a_host(age_s=400), "not known now: its host does not report"),
    "acting": (a_host(vp={"actions": [cloud.an_action()]}), f"{LOSES}nova-vp is acting"),
    "a proposal waits": (
        a_host(proposals=[cloud.a_cap()]),
        f"{LOSES}an action waits until an operator accepts it",
    ),
    "nothing can be done on its host": (
        a_host(escalations=escalated()),
        f"{LOSES}no action on its host helps, so the cluster was asked",
    ),
    "nothing is done": (a_host(), f"{LOSES}nova-vp does nothing about it now"),
    "an old agent": (
        a_host(loss_ratio=None),
        "loses an unknown part of its performance to a neighbour since 2026-01-02 03:02 UTC; "
        "nova-vp does nothing about it now",
    ),
}


def sentence(user: User, path: str) -> str:
    return words(user.get(path).one("//dd[@data-key='degradation']"))


@pytest.mark.parametrize("state", STATES)
def test_a_tenant_reads_what_its_server_loses(state: str, reported: Report, tenant: User) -> None:
    record, expected = STATES[state]
    reported(record)
    assert sentence(tenant, TENANTS) == expected


def test_an_operator_reads_it_exactly_and_why_it_is_not_measured(
    reported: Report, admin: User
) -> None:
    for state, expected in (
        ("acting", "loses 21.3% to a neighbour since 2026-01-02 03:02:55 UTC; nova-vp is acting"),
        ("not measured", "not known now: it is idle"),
        ("stale", "not known now: its host does not report"),
    ):
        reported(STATES[state][0])
        assert sentence(admin, OPERATORS) == expected


def test_an_operator_reads_that_the_mode_forbids_it(reported: Report, admin: User) -> None:
    reported(a_host(mode="observe"))
    assert sentence(admin, OPERATORS).endswith("about it now, because it is in mode observe")


@pytest.mark.parametrize("state", ["not measured", "stale"])
def test_what_is_not_known_is_no_number(state: str, reported: Report, tenant: User) -> None:
    reported(STATES[state][0])
    row = tenant.get("/project/vp_performance/").one(f"//tr[@data-server='{cloud.VICTIM}']")
    assert words(row.xpath("td[@data-key='degradation']")[0]).startswith("unknown")
    assert not row.xpath(".//data")


def test_help_is_refused_and_accepted_again(reported: Report, tenant: User) -> None:
    reported(a_host())
    shown = tenant.post(TENANTS, [("opt_out", "true")])
    assert words(shown.one("//td[@data-key='opt_out']")).startswith("refused")
    assert sentence(tenant, TENANTS) == (
        f"{LOSES}nova-vp does nothing about it now, because help for it was refused"
    )
    shown = tenant.post(TENANTS, [("opt_out", "maybe")])
    assert words(shown.one("//td[@data-key='opt_out']")).startswith("refused")
    shown = tenant.post(TENANTS, [("opt_out", "false")])
    assert words(shown.one("//td[@data-key='opt_out']")) == "accepted"


def test_a_tenant_orders_nothing_for_servers_of_others(reported: Report, tenant: User) -> None:
    reported(a_host(vp={"project_id": cloud.BETA}))
    tenant.get("/project/vp_performance/")
    shown = tenant.get(TENANTS)
    assert shown.problem
    assert not shown.tree.xpath("//form[.//button[@name='opt_out']]")
