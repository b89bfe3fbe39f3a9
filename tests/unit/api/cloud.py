# SPDX-License-Identifier: Apache-2.0
"""A small cloud as the store would hold it: builders, and the two hosts that API tests ask about.

lab-1 is fresh: `victim` of project alpha was hurt by `noisy` of project beta, which was moved.
lab-2 is stale, measures badly, and still claims `victim`, which left it for lab-1.
"""

from datetime import UTC, datetime, timedelta

from nova_vp import wire
from nova_vp.db.queries import HostRecord

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
NOW_S = NOW.timestamp()

ALPHA = "a" * 32
BETA = "b" * 32
GAMMA = "c" * 32

VICTIM = "11111111-1111-4111-8111-111111111111"
NOISY = "22222222-2222-4222-8222-222222222222"
ORPHAN = "33333333-3333-4333-8333-333333333333"
SLEEPER = "44444444-4444-4444-8444-444444444444"
GONE = "55555555-5555-4555-8555-555555555555"
UNKNOWN = "99999999-9999-4999-8999-999999999999"


def an_action(**changes):
    return {
        "id": "6f1c2d3e-1",
        "at": NOW_S - 60,
        "controller": "mitigate",
        "uuid": NOISY,
        "victim": VICTIM,
        "reason": "move-aggressor",
        "result": "mended",
        "detail": "",
        "from_cpus": "0-1",
        "to_cpus": "2-3",
        "domains": [1],
        "hurt_ratio": 0.02,
        "evidence": {"memory_factor_before": 0.1, "memory_factor_now": 0.8},
        "rejected": [
            {"uuid": VICTIM, "domain": 1, "why": "predicted-hurt-not-lower", "hurt_ratio": 0.3},
            {"uuid": NOISY, "domain": 2, "why": "no-free-cpu", "hurt_ratio": None},
        ],
        **changes,
    }


def metrics(**changes):
    return {
        "mpki": 20.5,
        "l2_mpki": 30.25,
        "memory_factor": 0.68,
        "cpi": 2.5,
        "cpu_cores": 1.0,
        "misses_per_s": 2.5e6,
        "remote_ratio": 0.0,
        "running_ratio": 1.0,
        **changes,
    }


def a_vp(**changes):
    return {
        "uuid": VICTIM,
        "name": "victim",
        "project_id": ALPHA,
        "flavor": "vp.small",
        "vcpus": 1,
        "isolation": "soft",
        "unmanaged": None,
        "unmanaged_detail": "",
        "domains": [0],
        "cpus": "0-1",
        "state": 8,
        "since": NOW_S - 30,
        "incomplete": None,
        "sensitivity": ["cache"],
        "metrics": metrics(),
        "interference": None,
        "actions": [],
        **changes,
    }


def a_report(host, **changes):
    report = {
        "v": wire.VERSION,
        "host": host,
        "epoch": 7,
        "seq": 41,
        "mode": "enforce",
        "at": NOW_S - 3,
        "counters": {"source": "vpmu", "problems": []},
        "actuator": "kernel",
        "domains": [
            {
                "id": n,
                "node": n,
                "cpus": f"{2 * n}-{2 * n + 1}",
                "free_cores": 1.5,
                "vcpus": 1.0,
                "misses_per_s": 2.5e6,
            }
            for n in range(2)
        ],
        "vps": [],
        "proposals": [],
        **changes,
    }
    return wire.decode(wire.REPORT_TOPIC, wire.encode(wire.REPORT_TOPIC, report))


def a_record(host="lab-1", age_s=3, **changes):
    report = a_report(host, **changes)
    return HostRecord(
        host=host,
        epoch=report["epoch"],
        sequence=report["seq"],
        mode=report["mode"],
        received_at=NOW - timedelta(seconds=age_s),
        report=report,
    )


def records():
    hurt = {
        "kind": "cache",
        "since": NOW_S - 10,
        "suspects": [{"uuid": NOISY, "rise_per_s": 1.5e6}],
        "refused": [
            {"uuid": NOISY, "domain": 1, "why": "no-free-cpu", "hurt_ratio": 0.25},
        ],
    }
    proposal = an_action(id="6f1c2d3e-2", at=NOW_S - 5, result="proposed", rejected=[])
    return [
        a_record(
            "lab-1",
            vps=[
                a_vp(interference=hurt, actions=[an_action()]),
                a_vp(
                    uuid=NOISY,
                    name="noisy",
                    project_id=BETA,
                    isolation="none",
                    domains=[1],
                    cpus="2-3",
                    state=7,
                    actions=[
                        an_action(id="6f1c2d3e-0", reason="home-on-arrival", victim=None),
                        an_action(),
                    ],
                ),
                a_vp(
                    uuid=ORPHAN,
                    name="orphan",
                    project_id="",
                    unmanaged="no-nova-metadata",
                    unmanaged_detail="not started by Nova",
                    state=None,
                    since=None,
                    incomplete="idle",
                    sensitivity=[],
                    metrics=None,
                ),
            ],
            proposals=[proposal],
        ),
        a_record(
            "lab-2",
            age_s=400,
            mode="observe",
            counters={"source": "perf", "problems": ["counters are multiplexed"]},
            vps=[
                a_vp(uuid=SLEEPER, name="sleeper", state=0, unmanaged="numa-topology"),
                a_vp(name="victim-before-it-moved", state=2),
            ],
        ),
    ]
