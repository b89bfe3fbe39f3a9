# SPDX-License-Identifier: Apache-2.0
"""The fuzzer finds what is wrong: faults planted in what it looks at."""

from collections import defaultdict

import pytest

from nova_vp.rpcserver import _Delivery
from nova_vp.signing import envelope
from nova_vp.signing.envelope import Verifier
from nova_vp.signing.senders import Process
from tests.fuzz.run import a_run
from vp_agent.loop.host_overlays import HostOverlays
from vp_agent.loop.overrides import ServerOverrides
from vp_agent.publish.outbox import Outbox
from vp_scheduler.escalation.migrate import MonitorMigration
from vp_scheduler.escalation.state_machine import NotifyAgent
from vp_scheduler.ingest import service as ingest
from vp_scheduler.placement import host_view

PAYLOADS = 6000
ANYBODY = defaultdict(lambda: frozenset(Process))


def nothing(*args: object) -> None: ...


PLANTED = [
    ("calls", Verifier, "_check_signed", nothing),
    ("calls", Verifier, "_check_recent", nothing),
    ("calls", Verifier, "_check_once", nothing),
    ("calls", envelope, "MAY_CALL", ANYBODY),
    ("calls", _Delivery, "deliver", nothing),
    ("calls", ServerOverrides, "take", nothing),
    ("agent-bus", ServerOverrides, "take", nothing),
    ("agent-socket", ServerOverrides, "order", nothing),
    ("overlay-bus", HostOverlays, "take", nothing),
    ("state-files", Outbox, "forget_ended", nothing),
    ("digests", host_view.HostView, "accept", nothing),
    ("reports", ingest.ReportEndpoint, "report", nothing),
    ("escalations", NotifyAgent, "finish", lambda self, found: self._context.wait(found, 1.0)),
    ("escalations", MonitorMigration, "follow", lambda self, found: self._context.wait(found, 1.0)),
]


@pytest.mark.parametrize(("subject", "owner", "name", "fault"), PLANTED)
def test_a_planted_fault_is_found(
    monkeypatch: pytest.MonkeyPatch, subject: str, owner: object, name: str, fault: object
) -> None:
    monkeypatch.setattr(owner, name, fault)
    assert is_found(subject)


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
