# SPDX-License-Identifier: Apache-2.0
"""Draws the pictures of the page *Dashboard* anew, of servers in the lab: `make
dashboard-screenshots`."""

from nova_vp.escalation_status import Status
from testbed.lab import cloud, settings
from tests.lab.dashboard.stage import (
    DEADLINE_S,
    HOST,
    OWNER,
    Told,
    accept_a_proposal,
    opened,
)
from tests.lab.stage import BUDGETS, DEAREST, SOFT, Scene, between_two_storms, three_hosts

ADVISE = f"[vp_scheduler]\nescalation_mode = advise{BUDGETS}"
ACTIONS = "/admin/vp_actions/"
FOLDER = settings.ROOT / "doc/source/images"


def before(stage):
    """While a proposal waits: names of pictures, who looks, where, and how much of the page."""
    victim = stage.victim.id
    return {
        "hosts": ("admin", "/admin/vp_hosts/", 450),
        "host": ("admin", f"/admin/vp_hosts/{HOST}/", 900),
        "servers": ("admin", "/admin/vp_servers/", 400),
        "server": ("admin", f"/admin/vp_servers/{victim}/", 900),
        "proposals": ("admin", "/admin/vp_proposals/", 900),
        "what-if": ("admin", f"/admin/vp_what_if/?server_id={victim}", 400),
        "overlays": ("admin", "/admin/vp_overlays/", 380),
        "modes": ("admin", "/admin/vp_modes/", 900),
        "tenant": (OWNER, "/project/vp_performance/", 390),
        "tenant-server": (OWNER, f"/project/vp_performance/{victim}/", 900),
    }


def after(stage):
    return {
        "actions": ("admin", ACTIONS, 640),
        "usage": ("admin", "/admin/vp_usage/", 400),
        "timeline": ("admin", f"/admin/vp_hosts/{HOST}/timeline/", 640),
    }


def draw(chromium, page_of, pictures):
    for name, (user, path, height) in pictures.items():
        page = page_of(user)
        assert opened(page, path).problem is None, path
        chromium.take_picture(page, FOLDER / f"dashboard-{name}.png", height)


def is_reported(shell):
    """A host tells its proposals at once, and who is degraded with its next report."""
    [told] = [one for one in Told(shell, "admin")("host list") if one["Host"] == HOST]
    return told["Hurt"]


def is_all_known(shell, page):
    """Usage, and the first minute after the action."""
    has_usage = Told(shell, "admin")("usage list")
    return has_usage and 'data-effect="waiting"' not in opened(page, ACTIONS).text


def test_pictures_are_drawn(stage, overlay, chromium, page_of, shell):
    stage.disturb()
    stage.wait_for_a_proposal(shell)
    cloud.wait_for(lambda: is_reported(shell), "a report of the harm", deadline_s=DEADLINE_S)
    draw(chromium, page_of, before(stage))
    page = page_of("admin")
    accept_a_proposal(page)
    cloud.wait_for(lambda: stage.is_mended(shell), "the end of it", deadline_s=DEADLINE_S)
    cloud.wait_for(lambda: is_all_known(shell, page), "its effect", deadline_s=DEADLINE_S)
    draw(chromium, page_of, after(stage))


def test_an_escalation_is_drawn(admin, stage, chromium, page_of):
    """Of a server that no action on its host helps."""
    cloud.delete(admin, *admin.compute.servers(all_projects=True))
    with three_hosts(ADVISE):
        scene = Scene(admin)
        between_two_storms(scene, victim=DEAREST, aggressor=SOFT)
        scene.let_loose("aggressor")
        waiting = scene.wait_for(lambda one: one.status is Status.PROPOSED, "a proposal")
        pictures = {
            "escalations": ("admin", "/admin/vp_escalations/", 640),
            "escalation": ("admin", f"/admin/vp_escalations/{waiting.id}/", 900),
        }
        draw(chromium, page_of, pictures)
