# SPDX-License-Identifier: Apache-2.0
"""Horizon in Chromium, on the whole cloud: `make dashboard-lab-test`. Each view has the numbers of
the command line, before and after a proposal is accepted there; each persona sees what it may.

One story, in file order.
"""

from functools import partial

from testbed.lab import cloud, settings
from tests.dashboard import comparisons
from tests.dashboard.dashboard import words
from tests.lab.dashboard.conftest import NOBODY, READER
from tests.lab.dashboard.stage import (
    DEADLINE_S,
    HOST,
    NEIGHBOUR,
    OTHER,
    OWNER,
    PROPOSALS,
    Told,
    accept_a_proposal,
    compare,
    opened,
)

OWN = "/project/vp_performance/"
PANELS = {
    f"/admin/vp_{name}/"
    for name in (
        *("hosts", "servers", "actions", "proposals", "escalations"),
        *("overlays", "usage", "what_if", "modes"),
    )
}


def views(stage, overlay):
    """Of operators: each address, and how its page is compared."""
    victim = stage.victim.id
    return {
        "/admin/vp_hosts/": comparisons.hosts,
        f"/admin/vp_hosts/{HOST}/": partial(comparisons.host, HOST),
        f"/admin/vp_hosts/{OTHER}/": partial(comparisons.host, OTHER),
        "/admin/vp_servers/": comparisons.servers,
        f"/admin/vp_servers/{victim}/": partial(comparisons.server, victim),
        "/admin/vp_actions/": comparisons.actions,
        PROPOSALS: comparisons.proposals,
        "/admin/vp_escalations/": comparisons.escalations,
        "/admin/vp_overlays/": comparisons.overlays,
        f"/admin/vp_overlays/{overlay}/": partial(comparisons.overlay, overlay),
        "/admin/vp_usage/": comparisons.usage,
        f"/admin/vp_what_if/?server_id={victim}": partial(
            comparisons.what_if, f"--server {victim}"
        ),
        "/admin/vp_what_if/?flavor=vp.tiny": partial(comparisons.what_if, "--flavor vp.tiny"),
        "/admin/vp_modes/": comparisons.modes,
    }


def compare_all(stage, overlay, shell, page):
    for path, comparison in views(stage, overlay).items():
        compare(page, path, comparison, Told(shell, "admin"))


def test_before_the_change_every_number_is_that_of_the_command_line(stage, overlay, shell, page_of):
    stage.disturb()
    stage.wait_for_a_proposal(shell)
    compare_all(stage, overlay, shell, page_of("admin"))


def test_a_tenant_sees_its_own_servers_alone(stage, overlay, shell, page_of):
    page, own = page_of(OWNER), stage.victim.id
    of_tenant = Told(shell, OWNER)
    compare(page, OWN, comparisons.own_servers, of_tenant)
    compare(page, OWN, comparisons.usage, of_tenant)
    compare(page, f"{OWN}{own}/", partial(comparisons.history, own), of_tenant)
    tab = f"/project/instances/{own}/?tab=instance_details__vp_performance"
    compare(page, tab, partial(comparisons.history, own), of_tenant)
    others = [stage.noisy, stage.other]
    betrayals = {HOST, OTHER, NEIGHBOUR, *(text for one in others for text in (one.id, one.name))}
    for path in (OWN, f"{OWN}{own}/"):
        said = words(opened(page, path).one("//*[@id='content_body']"))
        assert stage.victim.name in said
        assert {word for word in betrayals if word in said.split()} == set()
    foreign = opened(page, f"{OWN}{stage.noisy.id}/")
    assert "Nothing is known of this server" in foreign.problem
    assert not foreign.tree.xpath("//*[@id='content_body']//data")


def test_each_persona_has_the_panels_of_its_role(stage, page_of):
    assert panels(page_of("admin"), "/admin/vp_hosts/") >= PANELS
    for user in (OWNER, READER):
        page = page_of(user)
        assert panels(page, OWN) == {OWN}
        for path in sorted(PANELS):
            assert not opened(page, path).tree.xpath("//table[starts-with(@id, 'vp-')]"), path


def panels(page, path):
    """Addresses of ours in the menu beside that page."""
    menu = opened(page, path).tree.xpath("//*[@id='sidebar-accordion']//a/@href")
    return {link for link in menu if "/vp_" in link}


def test_who_may_only_read_orders_nothing(stage, page_of):
    path = f"{OWN}{stage.victim.id}/"
    for user, may_order in ((OWNER, True), (READER, False)):
        shown = opened(page_of(user), path)
        assert stage.victim.name in words(shown.one("//h1"))
        assert bool(shown.tree.xpath("//button[@name='opt_out']")) is may_order


def test_who_has_no_role_does_not_come_in(chromium, browser, newcomers):
    with browser.new_context(base_url=settings.HORIZON_URL) as context:
        page = context.new_page()
        chromium.ask_in(page, NOBODY, settings.PASSWORD)
        page.wait_for_selector(".alert-danger")
        assert "not authorized for any projects" in page.locator(".alert-danger").inner_text()
        page.goto("/admin/vp_hosts/")
        assert "/auth/login/" in page.url


def test_an_accepted_proposal_moves_a_vcpu(stage, page_of):
    assert not stage.are_apart()
    accept_a_proposal(page_of("admin"))
    cloud.wait_for(stage.are_apart, "the kernel to move a vCPU", deadline_s=DEADLINE_S)


def test_after_the_change_every_number_is_that_of_the_command_line(stage, overlay, shell, page_of):
    cloud.wait_for(lambda: stage.is_mended(shell), "the end of it", deadline_s=DEADLINE_S)
    compare_all(stage, overlay, shell, page_of("admin"))
    shown = opened(page_of(OWNER), f"{OWN}{stage.victim.id}/")
    assert "the degradation ended" in words(shown.one("//table[@id='vp-actions']"))


def test_without_vp_api_no_number_remains(stage, overlay, page_of):
    page, tenant = page_of("admin"), page_of(OWNER)
    cloud.stop("vp-api")
    try:
        for one, path in [
            *((page, path) for path in views(stage, overlay)),
            *((tenant, path) for path in (OWN, f"{OWN}{stage.victim.id}/")),
        ]:
            shown = opened(one, path)
            assert shown.problem, path
            assert not shown.tree.xpath("//*[@id='content_body']//data | //tr[@data-server]"), path
        assert opened(page, "/settings/").status == 200
    finally:
        cloud.start("vp-api")
    cloud.wait_for(
        lambda: opened(page, "/admin/vp_hosts/").problem is None,
        "vp-api to answer again",
        deadline_s=DEADLINE_S,
    )
