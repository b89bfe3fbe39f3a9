# SPDX-License-Identifier: Apache-2.0
"""What becomes of a rightly signed call that nobody could have meant."""

import logging
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from nova_vp.rpcserver import _Delivery
from nova_vp.signing.envelope import Signer, Verifier
from nova_vp.signing.keyring import ToldKeys
from nova_vp.signing.senders import Process, Sender
from tests.escalations import HandClock
from tests.messages import NothingToSay
from vp_agent.loop.command_server import Endpoint, FactsEndpoint, MigrationEndpoint
from vp_scheduler.escalation.service import EscalationEndpoint

API, SCHEDULER = Sender(Process.API, "ctl1"), Sender(Process.SCHEDULER, "ctl1")
AGENT = Sender(Process.AGENT, "vp1")


class Answers:
    def __init__(self) -> None:
        self.given: list[Mapping[str, Any]] = []

    def answer(self, address: str, arguments: Mapping[str, Any]) -> None:
        self.given.append(arguments)


def deliver(
    endpoint: object,
    sender: Sender,
    method: str,
    arguments: Mapping[str, Any],
    address: str = "",
) -> Answers:
    key, ring, answers = Ed25519PrivateKey.generate(), ToldKeys(), Answers()
    ring.accept({sender: (key.public_key(),)})
    delivery = _Delivery(Verifier(ring), {"here"}, [endpoint], answers)  # type: ignore[arg-type]
    address = address or f"{sender.answer_prefix}{'0' * 32}"
    sealed = Signer(sender, key).seal("here", method, arguments, answer_to=address)
    delivery.deliver({}, **sealed._asdict())
    return answers


class Nobody:
    """What an endpoint must not get to."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"{name} was reached")


def escalation_endpoint() -> EscalationEndpoint:
    return EscalationEndpoint(Nobody(), lambda: None, (), HandClock().as_clock())


def agents_endpoint() -> Endpoint:
    return Endpoint(Nobody(), NothingToSay())


METHODS: list[tuple[Callable[[], object], Sender, str]] = [
    (escalation_endpoint, AGENT, "escalate"),
    (agents_endpoint, API, "set_mode"),
    (agents_endpoint, API, "accept"),
    (agents_endpoint, API, "reject"),
    (agents_endpoint, API, "undo"),
    (agents_endpoint, API, "set_overrides"),
    (agents_endpoint, API, "report_latency"),
    (agents_endpoint, SCHEDULER, "republish"),
    (agents_endpoint, SCHEDULER, "republish_digest"),
    (agents_endpoint, SCHEDULER, "set_modes"),
    (lambda: FactsEndpoint(Nobody()), SCHEDULER, "set_facts"),  # type: ignore[arg-type]
    (lambda: MigrationEndpoint(Nobody()), SCHEDULER, "prepare_migration"),
    (lambda: MigrationEndpoint(Nobody()), SCHEDULER, "end_migration"),
]


@pytest.mark.parametrize("arguments", [{}, {"x": 1}, {"call": 1}, {"self": 1}], ids=str)
@pytest.mark.parametrize(("make", "sender", "method"), METHODS, ids=[one[2] for one in METHODS])
def test_arguments_that_a_method_does_not_take_cost_no_traceback(
    make: Callable[[], object],
    sender: Sender,
    method: str,
    arguments: Mapping[str, Any],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Else one host could fill the log of a vp-scheduler."""
    with caplog.at_level(logging.INFO):
        answers = deliver(make(), sender, method, arguments)
    assert answers.given == []
    [line] = caplog.records
    assert line.exc_info is None
    assert f"{method}: " in line.getMessage()


def test_a_refusal_is_one_line_of_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """Whatever its sender has signed."""
    with caplog.at_level(logging.INFO):
        deliver(escalation_endpoint(), AGENT, "escalate", {"text": ""}, "x\n2026 ERROR \x1b[2J")
    [line] = caplog.records
    assert "it does not wait for answers at x?2026 ERROR ?[2J" in line.getMessage()
