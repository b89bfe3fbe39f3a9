# SPDX-License-Identifier: Apache-2.0
"""The fuzzer finds what is wrong: faults planted in what it looks at."""

from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nova_vp.core import step
from nova_vp.core.pipeline import plan
from nova_vp.core.pipeline.plan import LEASE_S, Plan
from nova_vp.core.signals.measure import measure
from nova_vp.core.types.action import Renewal
from nova_vp.core.types.knob import Held
from nova_vp.core.types.picture import Picture
from nova_vp.core.types.policy import Policy
from nova_vp.core.types.state import CoreState
from nova_vp.rpcserver import _Delivery
from nova_vp.signing import envelope
from nova_vp.signing.envelope import Verifier
from nova_vp.signing.senders import Process
from tests.fuzz.agent_lives import AgentLives
from tests.fuzz.oracle import Wrong
from tests.fuzz.run import a_run
from vp_agent.loop import reconcile
from vp_agent.loop.executor import Executor
from vp_agent.loop.host_overlays import HostOverlays
from vp_agent.loop.overrides import ServerOverrides
from vp_agent.loop.picture import OwnHost
from vp_agent.loop.state import StateFolder
from vp_agent.publish.outbox import Outbox
from vp_scheduler.escalation.migrate import MonitorMigration
from vp_scheduler.escalation.state_machine import NotifyAgent
from vp_scheduler.ingest import service as ingest
from vp_scheduler.placement import host_view

PAYLOADS = 6000
ANYBODY = defaultdict(lambda: frozenset(Process))


def nothing(*args: object) -> None: ...


def forgetting_nobody(state: CoreState, picture: Picture, policy: Policy) -> CoreState:
    measured = measure(state, picture, policy)
    return replace(measured, vps={**state.vps, **measured.vps})


def leaving_other_runs(host: OwnHost, guests: reconcile.Guests) -> Any:
    return guests, dict(host.journal.read())


def acting_first(self: Executor, guest_uuid: str, held: Held) -> None:
    before = self._entry(guest_uuid)
    self._actuator(held.knob).apply(guest_uuid, held.knob, held.value)
    self._journal.write(before.holding(held))


def taking_as_read(host: OwnHost, book: object, *read: object) -> object:
    return read


def permitting(*asked: object) -> bool:
    return True


def renewing_all(self: Plan, turned: Any) -> Any:
    """Whatever the mode, and whoever claims it."""
    until_s = self._picture.at_s + LEASE_S
    for uuid, applied in self._picture.applied.items():
        leased = (held.knob for held in applied.held if held.until_s is not None)
        yield from (Renewal(uuid, knob, until_s) for knob in leased if (uuid, knob) not in turned)


PLANTED = [
    ("calls", Verifier, "_check_signed", nothing),
    ("calls", Verifier, "_check_recent", nothing),
    ("calls", Verifier, "_check_once", nothing),
    ("calls", envelope, "MAY_CALL", ANYBODY),
    ("calls", _Delivery, "deliver", nothing),
    ("calls", ServerOverrides, "take", nothing),
    ("agent-bus", ServerOverrides, "take", nothing),
    ("agent-socket", ServerOverrides, "override", nothing),
    ("overlay-bus", HostOverlays, "take", nothing),
    ("state-files", Outbox, "forget_ended", nothing),
    ("digests", host_view.HostView, "accept", nothing),
    ("reports", ingest.ReportEndpoint, "report", nothing),
    ("metadata", step, "measure", forgetting_nobody),
    ("escalations", NotifyAgent, "finish", lambda self, found: self._context.wait(found, 1.0)),
    ("escalations", MonitorMigration, "follow", lambda self, found: self._context.wait(found, 1.0)),
]


@pytest.mark.parametrize(("subject", "owner", "name", "fault"), PLANTED)
def test_a_planted_fault_is_found(
    monkeypatch: pytest.MonkeyPatch, subject: str, owner: object, name: str, fault: object
) -> None:
    monkeypatch.setattr(owner, name, fault)
    assert is_found(subject)


PINNED, BEST_EFFORT, LATENCY_CRITICAL = 0, 3, 4
LIMITED = [PINNED, BEST_EFFORT, LATENCY_CRITICAL]
START = ("nothing", 0)
QUARREL = [START, ("quarrel", 0), ("long", 0)]
LIVES: list[tuple[str, object, str, object, list[int], list[tuple[str, int]]]] = [
    (
        "initial_placement",
        reconcile,
        "_undo_other_runs",
        leaving_other_runs,
        LIMITED,
        [START, ("restart", 0)],
    ),
    ("vp", StateFolder, "epochs", lambda self: (), [PINNED] * 2, [*QUARREL, ("restart", 0)]),
    ("latency", reconcile, "_give_back_exempt", taking_as_read, LIMITED, [START, ("order", 4)]),
    ("latency", Executor, "drop_foreign", nothing, LIMITED, [START, ("limit", 1)]),
    ("latency", Executor, "_hold", acting_first, LIMITED, [("kill", 1)]),
    ("latency", Executor, "_forget", nothing, LIMITED, [START]),
    ("latency", plan, "is_permitted", permitting, LIMITED, [START, ("mode", 0), ("reboot", 1)]),
    ("latency", Plan, "_renewals", renewing_all, LIMITED, [START, ("observe", 0)]),
]
"""Of whose actions, what is planted, which servers there are, and what happens to them."""


@pytest.mark.parametrize(
    ("owner", "name", "fault", "servers", "events"),
    [pytest.param(*rest, marks=pytest.mark.needs_controllers(one)) for one, *rest in LIVES],
)
def test_lives_of_an_agent_find_what_takes_a_history(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    owner: object,
    name: str,
    fault: object,
    servers: list[int],
    events: list[tuple[str, int]],
) -> None:
    life = {
        "mode": "enforce",
        "controllers": ["initial_placement", "latency", "vp"],
        "numbers": {"home_on_arrival": "always"},
        "servers": servers,
        "events": events,
        "end": "restarted",
    }
    AgentLives(tmp_path / "as-it-is").take(life)
    monkeypatch.setattr(owner, name, fault)
    with pytest.raises(Wrong):
        AgentLives(tmp_path / "with-the-fault").take(life)


@pytest.mark.needs_controllers("overlays")
def test_a_loan_that_does_not_end_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    standing = "nova_vp.core.controllers.overlays.standing"
    monkeypatch.setattr(f"{standing}._is_on", lambda view, loan: True)
    assert is_found("overlay-bus")


def is_found(subject: str) -> bool:
    with a_run("planted", subject) as run:
        with run.world() as world:
            made = [world.make("planted", number, subject) for number in range(PAYLOADS)]
        return run.fault(one for one in made if one) is not None
