# SPDX-License-Identifier: Apache-2.0
"""Names that their owners chose are text on every page that has them."""

from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import pytest

from tests.dashboard.conftest import HOSTILE
from tests.dashboard.dashboard import User, words
from tests.unit.api import cloud

AGGRESSOR = f"{HOSTILE} aggressor"


def a_host() -> Any:
    """Whose servers have hostile names, the degraded one and its aggressor; a proposal waits."""
    found = {
        "kind": "cache",
        "since": cloud.NOW_S - 70,
        "suspects": [{"uuid": cloud.NOISY, "rise_per_s": 1.5e6}],
        "refused": [cloud.refused(hurt_ratio=0.25)],
        "loss_ratio": 0.2,
    }
    return cloud.a_record(
        vps=[
            cloud.a_vp(name=HOSTILE, interference=found, actions=[cloud.an_action()]),
            cloud.a_vp(uuid=cloud.NOISY, name=AGGRESSOR, project_id=cloud.BETA),
        ],
        proposals=[cloud.a_cap()],
        **cloud.islands(),
    )


@pytest.mark.parametrize(
    ("path", "names"),
    [
        ("/admin/vp_servers/", [HOSTILE, AGGRESSOR]),
        (f"/admin/vp_servers/{cloud.VICTIM}/", [HOSTILE, AGGRESSOR]),
        ("/admin/vp_hosts/lab-1/", [HOSTILE, AGGRESSOR]),
        ("/admin/vp_hosts/lab-1/timeline/", [HOSTILE, AGGRESSOR]),
        ("/admin/vp_actions/", [HOSTILE, AGGRESSOR]),
        ("/admin/vp_proposals/", [HOSTILE, AGGRESSOR]),
    ],
)
def test_to_operators(
    path: str, names: list[str], reported: Callable[[Any], None], admin: User
) -> None:
    reported(a_host())
    shown = admin.get(path)
    assert shown.problem is None
    assert "<script>alert" not in shown.text
    assert "<b style" not in shown.text
    for name in names:
        assert name in words(shown.one("//body"))


@pytest.mark.parametrize(
    "path", ["/project/vp_performance/", f"/project/vp_performance/{cloud.VICTIM}/"]
)
def test_to_the_tenant(path: str, reported: Callable[[Any], None], tenant: User) -> None:
    reported(a_host())
    shown = tenant.get(path)
    assert HOSTILE in words(shown.one("//body"))
    assert AGGRESSOR not in words(shown.one("//body"))
    assert "<script>alert" not in shown.text


@pytest.mark.parametrize(
    "query",
    ["vp_what_if/?flavor=", "vp_what_if/?server_id=", "vp_actions/?at=", "vp_servers/?name="],
)
def test_what_is_typed(query: str, admin: User) -> None:
    shown = admin.get(f"/admin/{query}{quote(HOSTILE)}")
    assert shown.status == 200
    assert "<script>alert" not in shown.text
    assert HOSTILE in {one.get("value") for one in shown.tree.xpath("//input")}
