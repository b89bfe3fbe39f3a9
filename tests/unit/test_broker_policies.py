# SPDX-License-Identifier: Apache-2.0
"""The shipped RabbitMQ policies bound every queue we use."""

import json
import re
from pathlib import Path

import pytest

from nova_vp import wire

FILE = Path(__file__).parents[2] / "etc" / "nova-vp" / "rabbitmq-policies.json"


@pytest.mark.parametrize(
    "queue",
    [
        wire.REPORT_TOPIC,
        f"{wire.DIGEST_TOPIC}.ctl1.0123",
        f"{wire.AGENT_TOPIC}.vp1",
        wire.ESCALATION_TOPIC,
        wire.USAGE_TOPIC,
        wire.OVERLAY_CALL,
        f"{wire.ANSWER_TOPIC}.vp-api.ctl1.0123",
    ],
)
def test_every_queue_is_bounded_in_time_and_size(queue: str) -> None:
    policies = [entry["value"] for entry in json.loads(FILE.read_text())["parameters"]]
    [limits] = [p["definition"] for p in policies if re.search(p["pattern"], queue)]
    assert limits["message-ttl"] <= wire.EXPIRE_S * 1000
    assert limits.keys() & {"max-length", "max-length-bytes"}
