# SPDX-License-Identifier: Apache-2.0
"""A small cloud as the store would hold it: builders, and the two hosts that API tests ask about.

lab-1 is fresh: `victim` of project alpha was hurt by `noisy` of project beta, which was moved and
is to be capped; its memory is on its way.
lab-2 is stale, measures badly, and still claims `victim`, which left it for lab-1. Its agent is an
old one, which reports none of what may be missing.
"""

import json
from datetime import UTC, datetime, timedelta

from nova_vp import wire
from nova_vp.core.types.detection import Kind
from nova_vp.core.types.usage import Usage
from nova_vp.db.records import HostRecord
from nova_vp.db.usage import UsageRecord

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
ESCALATION = "66666666-6666-4666-8666-666666666666"
OLD_ESCALATION = "77777777-7777-4777-8777-777777777777"
OVERLAY = "88888888-8888-4888-8888-888888888888"
"""Of alpha, registered: `victim` and `sleeper`."""
UNKNOWN = "99999999-9999-4999-8999-999999999999"


def an_action(**changes):
    return {
        "id": "6f1c2d3e-1",
        "at": NOW_S - 60,
        "settled_at": NOW_S - 48,
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
        "rung": "move-vcpus",
        "on_behalf_of": None,
        "changes": [
            {"uuid": NOISY, "knob": "placement", "from": "0-1", "to": "2-3", "until": None}
        ],
        "rejected": [
            refused(uuid=VICTIM, why="predicted-hurt-not-lower", hurt_ratio=0.3),
            refused(domain=2),
        ],
        **changes,
    }


def refused(**changes):
    return {
        "uuid": NOISY,
        "domain": 1,
        "rung": "move-vcpus",
        "why": "no-free-cpu",
        "hurt_ratio": None,
        **changes,
    }


def a_cap(**changes):
    cap = {
        "uuid": NOISY,
        "knob": "cpu-cap",
        "from": "none",
        "to": "90 % of each vCPU",
        "until": NOW_S + 60,
    }
    return an_action(
        id="6f1c2d3e-2",
        at=NOW_S - 5,
        settled_at=None,
        reason="cap-aggressor",
        result="proposed",
        from_cpus="",
        to_cpus="",
        domains=[],
        rung="cap",
        changes=[cap],
        rejected=[],
        **changes,
    )


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


def a_service(**changes):
    """Of a latency-critical server that reports."""
    return {
        "class": "latency-critical",
        "latency_target_ms": 10.0,
        "latency_percentile": 95.0,
        "max_load": 450000.0,
        "may_suspend": False,
        "reported": {"at": NOW_S - 5, "latency_ms": 8.5, "load": 120000.0},
        "used": 40,
        "ignored": {"too-soon": 2},
        **changes,
    }


def asked(group="", vp_id=VICTIM, **changes):
    """What younger agents say of a server on top."""
    return {
        "vp_id": vp_id,
        "group": group,
        "priority": 1.0,
        "cap_floor_ratio": 0.5,
        "cap": "none",
        "memory": "node 0 100 %",
        "memory_obstacle": "",
        "cpu_use": {
            "waiting_ratio": 0.1234,
            "throttled_ratio_ours": 0.0,
            "throttled_ratio_nova": 0.4,
        },
        **changes,
    }


def islands(cap_cpus=2.5):
    """What agents say that have islands."""
    return {
        "islands": [
            {
                "name": "llc-0",
                "kind": "capped",
                "cpus": "0-2",
                "own_cpus": "0-1",
                "cap_cpus": cap_cpus,
                "servers": [VICTIM],
                "nodes": [0],
                "borrowed": [{"cpu": 2, "lender": "llc-1", "overlay_id": OVERLAY}],
                "problem": "its servers may use 3 CPUs by their floors",
            }
        ],
        "overlays": [
            {
                "id": OVERLAY,
                "borrowed_cpus": 1,
                "boosted": [VICTIM],
                "credit_ratio": 0.25,
                "granted": 7,
                "refused": 2,
            }
        ],
    }


def under_way():
    """What younger agents say of a host on top."""
    nodes = [(0, 3e6, True), (1, 2.5e5, False)]
    return {
        "nodes": [
            {
                "node": node,
                "misses_per_s": misses,
                "mpki": 20.5,
                "limit_misses_per_s": 2e6,
                "is_hot": is_hot,
            }
            for node, misses, is_hot in nodes
        ],
        "memory_moves": [
            {
                "uuid": NOISY,
                "to": "node 1 100 %",
                "moved_kib": 262144,
                "left_kib": 786432,
                "is_over": False,
                "problem": "",
            }
        ],
        "escalations": [
            {
                "id": "6f1c2d3e-3",
                "at": NOW_S - 4,
                "since": NOW_S - 64,
                "victim": VICTIM,
                "kind": "memory-controller",
                "evidence": {"misses_per_s": 3e6},
                "rejected": [refused(domain=None, rung="cap", why="cap-at-its-floor")],
            }
        ],
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
                "newcomer_losses": {
                    "cache": [0.0] * 9 + [0.125],
                    "memory-controller": [0.0] * 10,
                    "cpu": [0.25] * 10,
                },
            }
            for n in range(2)
        ],
        "vps": [],
        "proposals": [],
        **changes,
    }
    return wire.decode(wire.REPORT_TOPIC, wire.encode(wire.REPORT_TOPIC, report))


def a_mode(mode, level="aggregate", name="ssd"):
    """What is set of a host's mode, and where: more than that is looser."""
    source = {"level": level, "name": name, "mode": mode}
    levels = [{"level": "cloud", "name": "", "mode": "enforce"}, source]
    told = {"version": 7, "checksum": "0" * 32, "knows_aggregates": True}
    return {**told, "source": source, "levels": levels}


def a_place(host):
    """What schedulers place by."""
    domains = a_report(host)["domains"]
    return {
        "homing": True,
        "domains": [{**one, "digest": a_digest_domain(one["id"])} for one in domains],
    }


def a_digest_domain(number):
    """A newcomer loses 2 %, a resident 8 %, no strict one more than it."""
    tables = {"newcomer": [20] * 10, "resident": [80] * 10, "strict": [20] * 10}
    resources = wire.pack_resources([Kind.CACHE] * wire.PREDICT_CLASSES)
    room = {"free_mcores": 1500, "cpus": 2, "vcpus": 1}
    return {"id": number, **room, **tables, "resources": resources}


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


def escalations():
    """What lab-1 asked the cluster for: the first is proposed, nobody is at the second yet."""
    return [
        an_escalation(),
        an_escalation(id=OLD_ESCALATION, kind="interconnect", candidates=[]),
    ]


def an_escalation(**changes):
    message = {
        "v": wire.VERSION,
        "id": ESCALATION,
        "host": "lab-1",
        "epoch": 7,
        "at": NOW_S - 4,
        "since": NOW_S - 64,
        "mode": "advise",
        "kind": "memory-controller",
        "victim": VICTIM,
        "evidence": {"misses_per_s": 3e6},
        "rejected": [refused(domain=None, rung="cap", why="cap-at-its-floor")],
        "candidates": [
            a_candidate(),
            a_candidate(uuid=VICTIM, name="victim", project_id=ALPHA, role="victim"),
        ],
        **changes,
    }
    topic = wire.ESCALATION_TOPIC
    return wire.decode(topic, wire.encode(topic, message))


def choice():
    """What a vp-scheduler writes who proposes it."""
    weighed = {"copy_s": 2.5, "cost_s": 0.6, "relief_ratio": 0.25, "others_ratio": 0.0}
    left_out = {"uuid": VICTIM, "name": "victim", "role": "victim", "why": "dearer"}
    mover = {"uuid": NOISY, "name": "noisy", "project_id": BETA, "role": "aggressor"}
    told = {
        "mover": mover,
        "numbers": {**weighed, "gain_s": 2826.1692000000003},
        "loss_ratio": 0.4,
        "rejected": [
            {
                **left_out,
                "detail": "costs 1.2 where noisy costs 0.6",
                "numbers": {**weighed, "cost_s": 1.2, "gain_s": 900.0},
            }
        ],
    }
    return {"reason": "noisy should leave this host", "choice": json.dumps(told)}


def usage():
    """By host: `victim` was on lab-2 before; nobody knows a name for the server of gamma's."""
    hour = NOW.replace(minute=0, second=0)
    before = hour - timedelta(hours=1)
    plain = Usage("plain", 3600.0, 60.0, 3.6e9, 4.5e9, 4.5e9, 12.5)
    estimate = Usage("estimate", 60.0, 0.0, 6e7, 2e7, 1e7, 0.0)
    return {
        "lab-1": [
            UsageRecord(7, VICTIM, ALPHA, hour, plain),
            UsageRecord(7, VICTIM, ALPHA, hour, estimate),
            UsageRecord(7, NOISY, BETA, hour, plain),
        ],
        "lab-2": [
            UsageRecord(5, VICTIM, ALPHA, before, plain),
            UsageRecord(5, GONE, GAMMA, before, estimate),
        ],
    }


def a_candidate(**changes):
    return {
        "uuid": NOISY,
        "name": "noisy",
        "project_id": BETA,
        "flavor": "vp.small",
        "image": "",
        "vcpus": 1,
        "role": "aggressor",
        "memory_kib": 1048576,
        "dirty_kib_per_s": None,
        "state": 7,
        "sensitivity": [],
        "priority": 1.0,
        "relief_ratio": 0.25,
        "others_ratio": 0.0,
        "obstacle": "",
        **changes,
    }


def records():
    hurt = {
        "kind": "cache",
        "since": NOW_S - 10,
        "suspects": [{"uuid": NOISY, "rise_per_s": 1.5e6}],
        "refused": [refused(hurt_ratio=0.25)],
        "loss_ratio": 0.21349,
    }
    return [
        a_record(
            "lab-1",
            modes=a_mode("enforce"),
            **a_place("lab-1"),
            vps=[
                a_vp(
                    interference=hurt,
                    actions=[an_action()],
                    service=a_service(),
                    **asked("shop", f"{ALPHA}/shop"),
                ),
                a_vp(
                    uuid=NOISY,
                    name="noisy",
                    project_id=BETA,
                    isolation="none",
                    domains=[1],
                    cpus="2-3",
                    state=7,
                    actions=[
                        an_action(
                            id="6f1c2d3e-0",
                            reason="home-on-arrival",
                            victim=None,
                            result="applied",
                            settled_at=None,
                        ),
                        an_action(),
                    ],
                    **asked(vp_id=NOISY, cap_floor_ratio=None, cap="90 % of each vCPU"),
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
                    **asked(vp_id=ORPHAN, memory="unknown", memory_obstacle="locked in memory"),
                ),
            ],
            proposals=[a_cap()],
            latency_projects=[
                {"project_id": ALPHA, "servers": 1, "used": 40, "ignored": {"too-soon": 2}}
            ],
            **islands(),
            **under_way(),
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
