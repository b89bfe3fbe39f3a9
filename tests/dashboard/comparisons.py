# SPDX-License-Identifier: Apache-2.0
"""View by view: the numbers of a page are those of the command line.

Each function is given `told`, which has what `openstack vp COMMAND -f json` says, and the page. It
asserts all numbers but `age_s`, which differs between any two moments.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tests.dashboard.dashboard import Shown, Values, values, words
from vp_client import formatters
from vp_dashboard import texts

Told = Callable[[str], Any]
USAGE = ("booked_s", "over_s", "permit_misses", "pollution_misses", "cpu_taken_core_s")


def hosts(told: Told, shown: Shown) -> None:
    listed = {one["Host"]: one for one in told("host list")}
    heat = {one["Host"]: one["LLC domains"] for one in told("host list --long")}
    assert set(shown.tree.xpath("//tr/@data-host")) == set(listed)
    for name, host in listed.items():
        row = shown.one(f"//tr[@data-host='{name}']")
        own = {one.get("data-key"): float(one.get("value")) for one in row.xpath("./td/data")}
        assert _timeless(own) == _known({"vps_count": host["VPs"], "hurt_count": host["Hurt"]})
        for domain in heat[name]:
            cell = row.xpath(f".//a[@data-domain='{domain['id']}']")[0]
            assert values(cell) == _some(domain, ("hurt_count", "servers_count", "worst_ratio"))
    assert len(shown.tree.xpath("//a[@data-domain]")) == sum(map(len, heat.values()))


def host(name: str, told: Told, shown: Shown) -> None:
    one = told(f"host show {name}")
    facts = values(shown.one("//dl[contains(@class, 'vp-facts')]"))
    assert _timeless(facts) == _some(one, ("vps_count", "hurt_count", "steal_ratio"))
    loads = {node["node"]: node for node in one["nodes"]}
    domains = {
        domain["id"]: (domain, loads.get(cell["id"]))
        for cell in one["cells"]
        for domain in cell["domains"]
    }
    assert {int(i) for i in shown.tree.xpath("//section/@data-domain")} == set(domains)
    for number, (domain, load) in domains.items():
        section = shown.one(f"//section[@data-domain='{number}']")
        controller = _some(load or {}, ("misses_per_s", "limit_misses_per_s"))
        assert values(section.xpath("p")[0]) == {
            **_some(domain, ("free_cores", "vcpus", "misses_per_s")),
            **{f"node.{key}": value for key, value in controller.items()},
        }
        lost = {
            row.get("data-server"): values(row).get("degradation")
            for row in section.xpath(".//tr[@data-server]")
        }
        assert lost == {
            vp["server_id"]: vp["degradation"] and vp["degradation"]["ratio"]
            for vp in one["vps"]
            if number in vp["domains"]
        }
    assert shown.tree.xpath("//li/@data-action") == [each["id"] for each in one["proposals"]]


def servers(told: Told, shown: Shown) -> None:
    rows = shown.tree.xpath("//table[@id='vp-servers']//tr[@data-server]")
    listed = told("list --sort degradation:desc")
    assert [row.get("data-server") for row in rows] == [one["Server ID"] for one in listed]
    for row, one in zip(rows, listed, strict=True):
        assert values(row) == _known({"degradation": one["Degradation"]})
        state = words(row.xpath("td[@data-key='state']")[0]).split()[0]
        assert state == str(one["State"]) if one["State"] is not None else not state.isdigit()


def server(server_id: str, told: Told, shown: Shown) -> None:
    one = told(f"show {server_id}")
    facts = shown.one("//dl[@id='vp-server-facts']")
    assert _timeless(values(facts)) == _known(one["metrics"] or {})
    if one["state"] is not None:
        assert words(facts.xpath("dd[@data-key='state']")[0]).split()[0] == str(one["state"])
    suspects = [each["server_id"] for each in (one["interference"] or {}).get("suspects", ())]
    links = facts.xpath("dd[@id='vp-aggressors']/a/@href")
    assert [link.rstrip("/").rpartition("/")[2] for link in links] == suspects
    history(server_id, told, shown)
    rows = actions_of(server_id, told, shown)
    for row, action in rows:
        done = told(f"action show {action['ID']} --host {action['Host']}")
        assert values(row)["hurt_ratio"] == done["hurt_ratio"]


def history(server_id: str, told: Told, shown: Shown) -> None:
    """For operators and tenants."""
    rows = shown.tree.xpath("//table[@id='vp-history']//tr[@data-at]")
    listed = told(f"history {server_id}")
    assert [row.get("data-at") for row in rows] == [one["At"] for one in listed]
    for row, one in zip(rows, listed, strict=True):
        numbers = {"mpki": one["MPKI"], "memory_factor": one["MF"]}
        assert values(row) == _known({**numbers, "cpi": one["CPI"], "cpu_cores": one["CPU"]})
        lost, said = one["Degradation"], words(row)
        assert not lost or formatters.percent(lost) in said


def actions_of(server_id: str, told: Told, shown: Shown) -> Iterable[tuple[Any, Any]]:
    """Rows of the page, each with what the command line says of the action."""
    rows = shown.tree.xpath("//table[@id='vp-actions']//tr[@data-at]")
    listed = told(f"action list --server {server_id}")
    assert [row.get("data-at") for row in rows] == [one["At"] for one in listed]
    for row, one in zip(rows, listed, strict=True):
        [result] = row.xpath("td[@data-key='result']")
        assert result.get("data-result") == one["Result"]
        assert words(result).startswith(texts.result(one["Result"]))
    return list(zip(rows, listed, strict=True))


def actions(told: Told, shown: Shown) -> None:
    listed = told("action list")
    assert set(shown.tree.xpath("//tr/@data-action")) == {one["ID"] for one in listed}
    for one in listed:
        row = shown.one(f"//tr[@data-action='{one['ID']}']")
        [result] = row.xpath("td[@data-key='result']")
        assert result.get("data-result") == one["Result"]


def proposals(told: Told, shown: Shown) -> None:
    listed = told("action list --result proposed")
    assert shown.tree.xpath("//tr/@data-action") == [one["ID"] for one in listed]
    for one in listed:
        row = shown.one(f"//tr[@data-action='{one['ID']}']")
        proposal = told(f"action show {one['ID']} --host {one['Host']}")
        numbers = {"hurt_ratio": proposal["hurt_ratio"], **proposal["evidence"]}
        assert _timeless(values(row)) == numbers
        assert proposal["changes"][0]["to"] in words(row)
    waiting = told("escalation list --status proposed")
    found = shown.tree.xpath("//table[@id='vp-waiting-migrations']//tr/@data-escalation")
    assert found == [one["ID"] for one in waiting]


def escalations(told: Told, shown: Shown) -> None:
    listed = told("escalation list")
    assert shown.tree.xpath("//tr/@data-escalation") == [one["ID"] for one in listed]
    for one in listed:
        row = shown.one(f"//tr[@data-escalation='{one['ID']}']")
        assert words(row.xpath("td[@data-key='status']")[0]) == one["Status"]


def escalation(escalation_id: str, told: Told, shown: Shown) -> None:
    one = told(f"escalation show {escalation_id}")
    assert values(shown.one("//dl[@id='vp-escalation']")) == one["evidence"]
    for candidate in one["candidates"]:
        row = shown.one(f"//tr[@data-server='{candidate['server']['server_id']}']")
        assert values(row) == _some(candidate, ("relief_ratio", "others_ratio", "memory_kib"))


def overlays(told: Told, shown: Shown) -> None:
    listed = told("overlay list")
    assert set(shown.tree.xpath("//tr/@data-overlay")) == {one["ID"] for one in listed}
    for one in listed:
        overlay = told(f"overlay show {one['ID']}")
        row = shown.one(f"//tr[@data-overlay='{one['ID']}']")
        assert values(row) == _some(overlay, ("target", "priority"))


def overlay(overlay_id: str, told: Told, shown: Shown) -> None:
    facts = values(shown.one("//dl[@id='vp-overlay']"))
    assert facts == _some(told(f"overlay show {overlay_id}"), ("target", "priority"))


def usage(told: Told, shown: Shown, span: str = "") -> None:
    """`span`: that of the page, as options of the command line."""
    listed = told(f"usage list {span}".strip())
    table = shown.one("//table[@id='vp-usage']")
    assert set(table.xpath(".//tr/@data-server")) == {one["server_id"] for one in listed}
    for one in listed:
        [row] = table.xpath(f".//tr[@data-server='{one['server_id']}']")
        assert values(row) == _some(one, USAGE)


def what_if(subject: str, told: Told, shown: Shown) -> None:
    """`subject`: as options of the command line."""
    listed = told(f"what-if {subject}")
    assert shown.tree.xpath("//tr/@data-host") == [one["Host"] for one in listed]
    for one in listed:
        numbers = {"newcomer_ratio": one["It loses"], "resident_ratio": one["Others lose"]}
        assert values(shown.one(f"//tr[@data-host='{one['Host']}']")) == _known(numbers)


def modes(told: Told, shown: Shown) -> None:
    rows, listed = shown.tree.xpath("//tr[@data-level]"), told("mode list")
    found = [words(row.xpath("td[@data-key='mode']")[0]) for row in rows]
    assert found == [one["Mode"] for one in listed]


def own_servers(told: Told, shown: Shown) -> None:
    """Of a tenant."""
    rows = shown.tree.xpath("//table[@id='vp-servers']//tr[@data-server]")
    listed = told("list")
    assert {row.get("data-server") for row in rows} == {one["Server ID"] for one in listed}


def _some(told: Mapping[str, Any], names: Iterable[str]) -> Values:
    return _known({name: told.get(name) for name in names})


def _known(numbers: Mapping[str, Any]) -> Values:
    return {name: number for name, number in numbers.items() if number is not None}


def _timeless(numbers: Values) -> Values:
    return {name: number for name, number in numbers.items() if name != "age_s"}
