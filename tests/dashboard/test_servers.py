# SPDX-License-Identifier: Apache-2.0
"""The panel *Servers*: those that are degraded first; of one all numbers are the command line's."""

from collections.abc import Callable

import pytest

from tests.dashboard import comparisons
from tests.dashboard.conftest import HOSTILE, Site
from tests.dashboard.dashboard import User, values, words
from tests.unit.api import cloud
from vp_dashboard.texts import readable

Report = Callable[..., None]
SERVERS = "/admin/vp_servers/"
VICTIM = f"{SERVERS}{cloud.VICTIM}/"


def test_who_loses_most_comes_first(site: Site, admin: User) -> None:
    shown = admin.get(SERVERS)
    comparisons.servers(site.told, shown)
    listed = site.told("list --sort degradation:desc")
    assert listed[0]["Server ID"] == cloud.VICTIM
    for one in listed:
        row = shown.one(f"//table[@id='vp-servers']//tr[@data-server='{one['Server ID']}']")
        state = words(row.xpath("td[@data-key='state']")[0]).split()[0]
        without = "stale" if one["Host"] == "lab-2" else "unknown"
        assert state == (without if one["State"] is None else str(one["State"]))


@pytest.mark.parametrize(
    ("query", "servers"),
    [
        ("?name=victim&hurt_by_neighbour=true", [cloud.VICTIM]),
        ("?state=7", [cloud.NOISY]),
        ("?host=lab-3", [cloud.UNKNOWN]),
        ("?host=nowhere", []),
    ],
)
def test_filters(query: str, servers: list[str], admin: User) -> None:
    assert admin.get(SERVERS + query).tree.xpath("//tr/@data-server") == servers


def test_states_say_what_their_names_stand_for(admin: User) -> None:
    shown = admin.get(f"{SERVERS}?state=7")
    state = shown.one("//td[@data-key='state']/abbr")
    assert words(state) == "7 terrier, mf>0.6"
    assert state.get("title") == "terrier (MPKI 2 to 15), memory factor 0.6 or more"
    chosen = shown.one("//select[@name='state']/option[@selected]")
    assert words(chosen) == "7 terrier (MPKI 2 to 15), memory factor 0.6 or more"


def test_the_words_of_a_server_are_explained(admin: User) -> None:
    said = words(admin.get(VICTIM).one("//details[@class='vp-glossary']"))
    for word in ("MPKI", "memory factor (MF)", "override", "unmanaged server", "bulldog"):
        assert word in said


def test_a_server_in_detail(site: Site, admin: User) -> None:
    shown, told = admin.get(VICTIM), site.told(f"show {cloud.VICTIM}")
    comparisons.server(cloud.VICTIM, site.told, shown)
    facts = shown.one("//dl[@id='vp-server-facts']")
    assert values(facts)["age_s"] == told["age_s"]
    assert told["interference"]["suspects"][0]["name"] in words(facts)
    assert shown.tree.xpath("//*[local-name()='svg']//*[local-name()='polyline']")


def test_pages_ask_no_more_than_four_times(site: Site, admin: User) -> None:
    for path, requests in ((SERVERS, 1), (f"{SERVERS}?state=7", 1), (VICTIM, 4)):
        site.door.asked.clear()
        assert admin.get(path).problem is None
        assert len(site.door.asked) == requests


@pytest.mark.parametrize(
    ("query", "hours"), [("?hours=6", 6), ("?hours=x&end=y", 1), ("?end=2026-01-02T03:00:00Z", 1)]
)
def test_other_times_can_be_asked_for(query: str, hours: int, admin: User) -> None:
    shown = admin.get(VICTIM + query)
    assert (shown.status, shown.problem) == (200, None)
    [chosen] = shown.tree.xpath("//nav/a[@aria-current='true' and contains(@href, 'hours=')]/@href")
    assert chosen.partition("&")[0] == f"?hours={hours}"


def test_nothing_is_shown_of_after_the_end_that_was_asked_for(site: Site, admin: User) -> None:
    first, second, *_ = (one["At"] for one in site.told(f"history {cloud.VICTIM}"))
    shown = admin.get(f"{VICTIM}?end={second}")
    assert shown.tree.xpath("//table[@id='vp-history']//tr/@data-at") == [first]


def test_how_much_it_loses_since_when_and_what_is_done(site: Site, admin: User) -> None:
    facts = admin.get(VICTIM).one("//dl[@id='vp-server-facts']")
    said = words(facts.xpath("dd[@data-key='degradation']")[0])
    told = site.told(f"show {cloud.VICTIM}")["degradation"]
    since = readable(told["since"])
    assert said.startswith(f"loses {100 * told['ratio']:.3g}% to a neighbour since {since}; ")


def test_who_degrades_it_and_what_waits_is_a_link_away(site: Site, admin: User) -> None:
    shown, told = admin.get(VICTIM), site.told(f"show {cloud.VICTIM}")
    [suspect] = shown.tree.xpath("//dd[@id='vp-aggressors']/a")
    assert words(suspect) == told["interference"]["suspects"][0]["name"]
    assert admin.get(suspect.get("href")).problem is None
    proposal, escalations = shown.tree.xpath("//dd[@id='vp-waits']/a")
    assert told["proposals"][0]["changes"][0]["to"] in words(proposal)
    for link in (proposal, escalations, shown.one("//a[contains(@href, 'vp_what_if/?')]")):
        assert admin.get(link.get("href")).tree.xpath("//table/tbody/tr[@*]")


def test_two_times_are_compared(site: Site, admin: User) -> None:
    shown = admin.get(f"{VICTIM}?a=2026-01-02T02:55:00Z&b=2026-01-02T03:00:00Z&minutes=10")
    rows = shown.tree.xpath("//table[@id='vp-comparison']//tr[@data-figure]")
    found = {row.get("data-figure"): values(row) for row in rows}
    history = site.told(f"history {cloud.VICTIM}")
    assert found["cpi"] == {"before": history[0]["CPI"], "after": history[-1]["CPI"]}
    assert found["performance_percent"]["after"] == pytest.approx(
        100 - 100 * history[-1]["Degradation"]
    )
    link = admin.get(VICTIM).tree.xpath("//table[@id='vp-actions']//a/@href")[0]
    assert admin.get(f"{VICTIM}{link}").tree.xpath("//table[@id='vp-comparison']")


@pytest.mark.parametrize("query", ["a=yesterday&b=", "b=2026-01-02T03:00:00Z", "a=1&b=2"])
def test_what_is_no_two_times_is_answered_with_what_to_write(admin: User, query: str) -> None:
    shown = admin.get(f"{VICTIM}?{query}&minutes=10")
    assert "Give two times" in words(shown.one("//p[@role='alert']"))
    for name in ("a", "b"):
        given = dict(part.split("=") for part in query.split("&")).get(name, "")
        assert shown.one(f"//input[@name='{name}']").get("value") == given
    assert not shown.tree.xpath("//table[@id='vp-comparison']")


@pytest.mark.parametrize(("ages_s", "is_offered"), [((4000, 2000, 3), True), ((60, 3), False)])
def test_earlier_is_offered_where_something_earlier_is_recorded(
    ages_s: tuple[int, ...], is_offered: bool, reported: Report, admin: User
) -> None:
    reported(*(cloud.a_record(age_s=age_s, vps=[cloud.a_vp()]) for age_s in ages_s))
    links = admin.get(VICTIM).tree.xpath("//nav/a[normalize-space()='Earlier']/@href")
    assert bool(links) is is_offered
    for link in links:
        assert admin.get(f"{VICTIM}{link}").tree.xpath("//table[@id='vp-history']//tr[@data-at]")


def test_a_time_before_the_server_was_there_is_told(reported: Report, admin: User) -> None:
    reported(cloud.a_record(vps=[cloud.a_vp()]))
    shown = admin.get(f"{VICTIM}?a=2026-01-02T02:00:00Z&b=2026-01-02T03:04:00Z&minutes=10")
    said = words(shown.one("//*[@id='vp-younger']"))
    assert said == (
        "There is nothing to compare with at 2026-01-02 02:00 UTC: the server is younger, and its "
        "first record is of 2026-01-02 03:04 UTC."
    )
    row = shown.one("//table[@id='vp-comparison']//tr[@data-figure='recorded_minutes']")
    assert values(row) == {"before": 0.0, "after": 1.0}


def test_of_a_server_that_is_gone_what_was_recorded_is_shown(reported: Report, admin: User) -> None:
    noisy = cloud.a_vp(uuid=cloud.NOISY, name="noisy", actions=[cloud.an_action()])
    both = cloud.a_record(age_s=60, vps=[cloud.a_vp(actions=[cloud.an_action()]), noisy])
    reported(both, cloud.a_record(vps=[noisy]))
    [link] = set(admin.get("/admin/vp_actions/").tree.xpath("//tr[@data-action]/td[2]/a/@href"))
    shown = admin.get(link)
    assert (shown.status, shown.problem) == (200, None)
    assert words(shown.one("//h1")) == "Server victim"
    assert "was deleted" in words(shown.one("//*[@id='vp-gone']"))
    assert shown.tree.xpath("//table[@id='vp-actions']//tr[@data-at]")
    [hour] = shown.tree.xpath("//a[contains(., 'The hour before its last action')]/@href")
    assert admin.get(f"{link}{hour}").tree.xpath("//table[@id='vp-history']//tr[@data-at]")
    assert not shown.tree.xpath("//dl[@id='vp-server-facts']")


def test_a_server_of_which_nothing_was_ever_recorded(admin: User) -> None:
    assert "HTTP 404" in str(admin.get(f"{SERVERS}{cloud.GONE}/").problem)


def test_a_drawing_of_a_day_leads_to_a_closer_look(admin: User) -> None:
    shown = admin.get(f"{VICTIM}?hours=24&end=2026-01-02T03:05:00Z")
    links = shown.tree.xpath("//*[local-name()='svg']//*[local-name()='a']/@href")
    assert links
    assert admin.get(f"{VICTIM}{links[0]}").problem is None


def test_a_hostile_name_is_text(admin: User) -> None:
    shown = admin.get(f"{SERVERS}{cloud.UNKNOWN}/")
    assert HOSTILE in words(shown.one("//h1"))
    assert "<script>alert" not in shown.text


@pytest.mark.parametrize("path", [SERVERS, VICTIM])
def test_without_vp_api_there_is_no_number(path: str, closed_door: None, admin: User) -> None:
    shown = admin.get(path)
    assert shown.problem
    assert not shown.tree.xpath("//*[@id='content_body']//data | //tr[@data-server]")
