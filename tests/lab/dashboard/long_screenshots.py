# SPDX-License-Identifier: Apache-2.0
"""Draws the pictures of the page *Dashboard* anew, of servers in the lab: `make
dashboard-screenshots`."""

from testbed.lab import cloud, settings
from tests.lab.dashboard.stage import DEADLINE_S, HOST, OWNER, accept_a_proposal, opened

FOLDER = settings.ROOT / "doc/source/images"


def before(stage):
    """While a proposal waits: names of pictures, who looks, where, and how much of the page."""
    victim = stage.victim.id
    return {
        "hosts": ("admin", "/admin/vp_hosts/", 450),
        "host": ("admin", f"/admin/vp_hosts/{HOST}/", 440),
        "servers": ("admin", "/admin/vp_servers/", 400),
        "server": ("admin", f"/admin/vp_servers/{victim}/", 550),
        "proposals": ("admin", "/admin/vp_proposals/", 415),
        "what-if": ("admin", f"/admin/vp_what_if/?server_id={victim}", 400),
        "overlays": ("admin", "/admin/vp_overlays/", 380),
        "modes": ("admin", "/admin/vp_modes/", 460),
        "tenant": (OWNER, "/project/vp_performance/", 390),
        "tenant-server": (OWNER, f"/project/vp_performance/{victim}/", 560),
    }


def after(stage):
    return {
        "actions": ("admin", "/admin/vp_actions/", 420),
        "timeline": ("admin", f"/admin/vp_hosts/{HOST}/timeline/", 640),
    }


def draw(chromium, page_of, pictures):
    for name, (user, path, height) in pictures.items():
        page = page_of(user)
        assert opened(page, path).problem is None, path
        chromium.take_picture(page, FOLDER / f"dashboard-{name}.png", height)


def test_pictures_are_drawn(stage, overlay, chromium, page_of, shell):
    stage.disturb()
    stage.wait_for_a_proposal(shell)
    draw(chromium, page_of, before(stage))
    accept_a_proposal(page_of("admin"))
    cloud.wait_for(lambda: stage.is_mended(shell), "the end of it", deadline_s=DEADLINE_S)
    draw(chromium, page_of, after(stage))
