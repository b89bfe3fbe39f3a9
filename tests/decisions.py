# SPDX-License-Identifier: Apache-2.0
"""Builders of decisions as an agent would publish them."""

from typing import Any

from nova_vp.core.types.action import Action, Change, Outcome, Result
from nova_vp.core.types.claim import Alternative, PredictedLoss
from nova_vp.core.types.decision import Decision, DomainView, Escalation, NodeView, VpView
from nova_vp.core.types.detection import Detection, Kind, Suspect
from nova_vp.core.types.guest import Guest
from nova_vp.core.types.knob import Knob
from nova_vp.core.types.policy import Mode
from nova_vp.core.types.reason import Reason, Rejection, Rung
from nova_vp.core.types.sample import Profile, Sample, Sensitivity, State
from nova_vp.core.types.topology import LlcDomain
from vp_agent.publish.host_info import HostInfo

SAMPLE = Sample(1.0, 1.0, 1e9, 1.2, 10.123456789, 5.0, 0.5, 1e6, 2e6, 0.1, 2.5, 1.0, 1.0)
PROFILE = Profile(State.from_number(1), Sensitivity(cache=True), 50.0, 5.0, 0.1, 1.0, 1e9, 5e6, 5e7)


def uuid_of(number: int) -> str:
    return f"{number:08x}-0000-4000-8000-000000000000"


def a_guest(number: int = 1, **fields: Any) -> Guest:
    values = {
        "uuid": uuid_of(number),
        "domain_name": f"instance-{number:08x}",
        "name": f"web-{number}",
        "project_id": "p" * 32,
        "flavor": "m1.small",
        "vcpus": 4,
        "memory_kib": 65536,
        "allowed_cpus": frozenset(range(64)),
        "placement": frozenset(range(8)),
        "cpu_time_ns": 0,
        "generation": "1",
    }
    return Guest(**values | fields)


def a_view(number: int = 1, state: int | None = 4, **fields: Any) -> VpView:
    values = {
        "guest": a_guest(number),
        "domain_ids": (0,),
        "sample": SAMPLE,
        "incomplete": None,
        "state": None if state is None else State.from_number(state),
        "since_s": 5.0,
        "sensitivity": Sensitivity(cache=True),
        "undisturbed": PROFILE,
        "detection": None,
        "history": (),
    }
    return VpView(**values | fields)


MOVED = Reason(
    "move-in-a-test",
    400,
    "the test wants it elsewhere",
    "this server was moved",
    is_verified=True,
    is_counted=True,
    takes_away=True,
)
"""Of no controller."""


def a_domain_view(id: int = 0, newcomer: float = 0.0, free_cores: float = 1.5) -> DomainView:
    return DomainView(
        domain=LlcDomain(id, 0, frozenset(range(8 * id, 8 * id + 8))),
        free_cores=free_cores,
        allocated_vcpus=4.0,
        pressure_per_s=1e6,
        table=(PredictedLoss(0.0, 0.0, 0.0),) * 9 + (PredictedLoss(newcomer, 0.02, 0.01),),
        by_resource={Kind.CACHE: (0.0,) * 9 + (0.02,), Kind.CPU: (0.125,) * 10},
    )


def a_placing(guest_uuid: str) -> Change:
    now, to, original = frozenset(range(8)), frozenset(range(8, 16)), frozenset(range(64))
    return Change(guest_uuid, Knob.PLACEMENT, to=(to,), now=(now,), original=(original,))


def an_action(id: str = "a1", **fields: Any) -> Action:
    values = {
        "id": id,
        "controller": "vp",
        "guest_uuid": uuid_of(2),
        "changes": (a_placing(uuid_of(2)),),
        "domain_ids": (1,),
        "reason": MOVED,
        "decided_s": 9.0,
        "predicted_loss": PredictedLoss(0.01, 0.03),
        "victim_uuid": uuid_of(1),
        "rung": Rung.MOVE,
        "evidence": {"rise_per_s": 1e6, "broken": float("nan")},
        "rejected": (Alternative(uuid_of(1), 1, Rejection.NO_FREE_CPU, PredictedLoss(0.2, 0.1)),),
    }
    return Action(**values | fields)


def a_node(node: int = 0, **fields: Any) -> NodeView:
    values = {"misses_per_s": 1e6, "mpki": 20.0, "limit_misses_per_s": None, "is_hot": False}
    return NodeView(node, **values | fields)


def an_escalation(**fields: Any) -> Escalation:
    values = {
        "id": "e1",
        "victim_uuid": uuid_of(1),
        "kind": Kind.CONTROLLER,
        "decided_s": 9.0,
        "since_s": 3.0,
        "evidence": {},
        "rejected": (Alternative(uuid_of(2), 0, Rejection.BUDGET, rung=Rung.CAP),),
    }
    return Escalation(**values | fields)


def a_detection() -> Detection:
    return Detection(
        victim_uuid=uuid_of(1),
        kind=Kind.CACHE,
        domain_id=0,
        since_s=8.0,
        before=PROFILE,
        now=SAMPLE,
        state_now=State.from_number(7),
        suspects=(Suspect(uuid_of(2), 2e6, 1e6),),
    )


def an_eventful_view(number: int = 1, actions: int = 3) -> VpView:
    history = tuple(
        Outcome(an_action(f"a{n}"), Result.APPLIED, 10.0 + n, "moved") for n in range(actions)
    )
    detected = {"detection": a_detection(), "degradation_ratio": 0.25}
    return a_view(number, state=7, history=history, **detected)


def a_decision(*views: VpView, at_s: float = 10.0, **fields: Any) -> Decision:
    views = views or (a_view(1), a_view(2))
    values = {
        "at_s": at_s,
        "mode": Mode.OBSERVE,
        "vps": views,
        "domains": (a_domain_view(0), a_domain_view(1)),
        "detections": tuple(view.detection for view in views if view.detection),
        "proposals": (),
        "actions": (),
    }
    return Decision(**values | fields)


def facts(host: str = "vp1", **fields: Any) -> HostInfo:
    values = {
        "host": host,
        "counters": "vpmu",
        "actuator": "kernel",
        "is_homing": True,
        "epoch_offset_s": 1.8e9,
    }
    return HostInfo(**values | fields)
