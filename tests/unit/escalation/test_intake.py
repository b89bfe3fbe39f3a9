# SPDX-License-Identifier: Apache-2.0
"""Which escalations are let in; the agent of one that is not hears why."""

from datetime import datetime
from typing import Any

import oslo_messaging
import pytest

from nova_vp import wire
from tests.identities import call_of
from tests.messages import escalation_text
from vp_scheduler.escalation.clock import Clock
from vp_scheduler.escalation.service import EscalationEndpoint


class MemoryLedger:
    def __init__(self) -> None:
        self.added: list[str] = []

    def add(self, id: str, host: str, message: str, now: datetime) -> bool:
        self.added.append(host)
        return True


def refusal(endpoint: EscalationEndpoint, text: Any) -> str:
    with pytest.raises(oslo_messaging.ExpectedException) as caught:
        endpoint.escalate(call_of(host="vp2" if "vp2" in text else "vp1"), text)
    kind, exc, _ = caught.value.exc_info
    assert kind is wire.BadMessage
    return str(exc)


def test_a_malformed_one_and_one_of_an_unknown_host_are_refused_and_counted() -> None:
    ledger = MemoryLedger()
    poked: list[bool] = []
    endpoint = EscalationEndpoint(ledger, lambda: poked.append(True), ["vp1"], Clock())
    assert "not JSON" in refusal(endpoint, "{")
    assert "vp2: not among" in refusal(endpoint, escalation_text(host="vp2"))
    assert (ledger.added, poked) == ([], [])
    endpoint.escalate(call_of(), escalation_text(host="vp1"))
    assert (ledger.added, poked) == (["vp1"], [True])
    assert endpoint.refusals.counts == {"malformed": 1, "unwelcome": 1}
