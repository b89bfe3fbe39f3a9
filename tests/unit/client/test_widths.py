# SPDX-License-Identifier: Apache-2.0
"""However long names are, every table fits into 100 characters."""

import json

import pytest

from nova_vp.core.types.overlay import ArbitrationClass
from nova_vp.core.types.usage import Usage
from nova_vp.db.overlays import Limits
from nova_vp.db.usage import UsageRecord
from nova_vp.latency_message import Ignored
from tests.openstack_shell import TABLE_WIDTH
from tests.unit.api import cloud
from tests.unit.api.stored import holding
from tests.unit.client.conftest import serving

HOST = "compute-" + "0" * 60
NAME, FLAVOR = "name " * 40, "f" * 120
ACTION = "rearrange-0123456789abcdef"
ACTIONS = [
    cloud.an_action(
        id=ACTION,
        reason="bring-memory-and-cpus-together",
        result="ineffective",
        controller="rearrange",
        detail="d" * 300,
    )
]
PROBLEMS = {"source": "a-source-of-others", "problems": ["p" * 400]}


def islands():
    servers = [cloud.VICTIM, cloud.NOISY] * 20
    island = {
        "name": "i" * 64,
        "kind": "exclusive",
        "cpus": ",".join(map(str, range(0, 100, 2))),
        "own_cpus": "0-99",
        "cap_cpus": 4095.123,
        "servers": servers,
        "nodes": list(range(64)),
        "borrowed": [{"cpu": 4095, "lender": "j" * 64, "overlay_id": cloud.OVERLAY}] * 20,
    }
    held = {
        "id": cloud.OVERLAY,
        "borrowed_cpus": 2**53,
        "boosted": servers,
        "credit_ratio": 0.123456,
        "granted": 2**53,
        "refused": 2**53,
    }
    return {"islands": [island], "overlays": [held]}


@pytest.fixture(scope="module")
def lab(shell, tmp_path_factory):
    hurt = {
        "kind": "memory-controller",
        "since": cloud.NOW_S,
        "suspects": [{"uuid": cloud.NOISY, "rise_per_s": 1e12}],
        "refused": [cloud.refused(hurt_ratio=0.123456)] * 3,
        "loss_ratio": 0.123456,
    }
    long = {"name": NAME, "flavor": FLAVOR, "state": 5, "actions": ACTIONS}
    vps = [
        cloud.a_vp(
            **long,
            interference=hurt,
            service=cloud.a_service(
                latency_target_ms=0.001,
                max_load=1e12,
                ignored={one.value: 2**53 for one in Ignored},
            ),
            **cloud.asked("g" * 60),
        ),
        cloud.a_vp(uuid=cloud.NOISY, **long, **cloud.asked()),
    ]
    ignored = {one.value: 2**53 for one in Ignored}
    project = {"project_id": cloud.ALPHA, "servers": 9, "used": 2**53, "ignored": ignored}
    counters = {
        "latency_projects": [project],
        **islands(),
        "mode": "enforce",
        "counters": PROBLEMS,
        "proposals": [cloud.a_cap()],
    }
    found = holding([cloud.a_record(HOST, vps=vps, **counters, **cloud.under_way())])
    message = cloud.an_escalation(host=HOST, candidates=[cloud.a_candidate(name=NAME.strip())])
    found.ledger.add(message["id"], HOST, json.dumps(message), cloud.NOW)
    for number, used in enumerate((Usage("plain"), Usage("plain", *[1e15] * 6))):
        records = [UsageRecord(number, cloud.VICTIM, cloud.ALPHA, cloud.NOW, used)]
        found.usage.add(HOST, records)
    found.overlays.create(
        cloud.OVERLAY,
        cloud.ALPHA,
        "o" * 64,
        [cloud.VICTIM, cloud.NOISY],
        limits=Limits(9, 9),
        priority=9,
        arbitration=ArbitrationClass.ROUND_ROBIN,
        target=-1.23456789e18,
        target_unit="u" * 32,
        by="u" * 64,
        now=cloud.NOW,
    )
    with serving(found, shell, tmp_path_factory.mktemp("etc")) as one:
        yield one


@pytest.mark.parametrize(
    ("command", "user"),
    [
        ("vp list", "admin"),
        ("vp list", "member"),
        (f"vp show {cloud.VICTIM}", "admin"),
        (f"vp show {cloud.VICTIM}", "member"),
        (f"vp history {cloud.VICTIM}", "admin"),
        (f"vp explain {cloud.VICTIM}", "admin"),
        (f"vp explain {cloud.VICTIM}", "member"),
        ("vp top --once", "admin"),
        ("vp list --long", "admin"),
        ("vp list --long", "member"),
        ("vp action list", "admin"),
        ("vp action list --long", "admin"),
        (f"vp action list --server {cloud.VICTIM}", "member"),
        (f"vp action show {ACTION}", "admin"),
        ("vp host list", "admin"),
        ("vp host list --long", "admin"),
        (f"vp host show {HOST}", "admin"),
        ("vp escalation list", "admin"),
        ("vp escalation list --long", "admin"),
        (f"vp escalation show {cloud.ESCALATION}", "admin"),
        ("vp profile list", "admin"),
        (f"vp what-if --server {cloud.NOISY}", "admin"),
        (f"vp latency report {cloud.VICTIM} --latency-ms 8.5 --load 1e12", "member"),
        ("vp usage list", "admin"),
        ("vp usage list", "member"),
        ("vp usage list --long", "admin"),
        ("vp usage list --long", "member"),
        (f"vp profile show {FLAVOR}", "admin"),
        ("vp overlay list", "admin"),
        ("vp overlay list", "member"),
        (f"vp overlay show {cloud.OVERLAY}", "admin"),
        (f"vp overlay show {cloud.OVERLAY}", "member"),
        (f"vp overlay call {cloud.OVERLAY} trigger --lease-s 12345", "admin"),
    ],
)
def test_tables_fit(lab, command, user):
    ran = lab.run(command, user=user)
    assert ran.rc == 0, ran.err
    widest = max(ran.out.splitlines(), key=len)
    assert len(widest) <= TABLE_WIDTH, widest
