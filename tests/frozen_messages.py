# SPDX-License-Identifier: Apache-2.0
"""Messages as a release wrote them, and what it took: `tests/frozen/RELEASE/TOPIC.json`.

`python -m tests.frozen_messages RELEASE` writes those of this release, when it is made. They are
never changed afterwards: agents and services of two successive releases work together.
"""

import json
import sys
from pathlib import Path
from typing import Any, NamedTuple

from nova_vp import wire
from nova_vp.cloud_modes import CloudModes, modes_text
from nova_vp.core.types.cpu_time import CpuUse
from nova_vp.core.types.overlay import CallAnswer
from nova_vp.core.types.policy import Mode
from nova_vp.host_facts import facts_text
from nova_vp.latency_message import latency_text
from nova_vp.overlay_message import CallMessage, answer_text, call_text, overlays_text
from nova_vp.server_override import ServerOverride, overrides_text
from nova_vp.wire.digest import DIGEST_SCHEMA
from nova_vp.wire.escalation import ESCALATION_SCHEMA
from nova_vp.wire.facts import FACTS_SCHEMA
from nova_vp.wire.host_keys import HOST_KEYS_SCHEMA
from nova_vp.wire.latency import LATENCY_SCHEMA
from nova_vp.wire.modes import MODES_SCHEMA
from nova_vp.wire.overlays import OVERLAY_ANSWER_SCHEMA, OVERLAY_CALL_SCHEMA, OVERLAYS_SCHEMA
from nova_vp.wire.overrides import OVERRIDES_SCHEMA
from nova_vp.wire.profiles import PROFILES_SCHEMA
from nova_vp.wire.report import REPORT_SCHEMA
from nova_vp.wire.usage import USAGE_SCHEMA
from tests.decisions import a_decision, a_node, a_view, an_action, an_eventful_view, facts
from tests.decisions import an_escalation as a_core_escalation
from tests.fuzz.made_calls import host_keys_text
from tests.messages import VICTIM, escalation_text, profiles_text, usage_text
from tests.unit.test_latency_reports import MESSAGE
from tests.unit.test_overlay_message import BLOG, BORROW, NOW_MS, SHOP
from tests.unit.test_told_facts import FACTS, NOW_S
from vp_agent.publish.digest import digest
from vp_agent.publish.report import report

FOLDER = Path(__file__).parent / "frozen"
SCHEMAS = {
    wire.DIGEST_TOPIC: DIGEST_SCHEMA,
    wire.REPORT_TOPIC: REPORT_SCHEMA,
    wire.ESCALATION_TOPIC: ESCALATION_SCHEMA,
    wire.USAGE_TOPIC: USAGE_SCHEMA,
    wire.PROFILES: PROFILES_SCHEMA,
    wire.HOST_KEYS: HOST_KEYS_SCHEMA,
    wire.OVERRIDES: OVERRIDES_SCHEMA,
    wire.MODES: MODES_SCHEMA,
    wire.FACTS: FACTS_SCHEMA,
    wire.LATENCY: LATENCY_SCHEMA,
    wire.OVERLAYS: OVERLAYS_SCHEMA,
    wire.OVERLAY_CALL: OVERLAY_CALL_SCHEMA,
    wire.OVERLAY_ANSWER: OVERLAY_ANSWER_SCHEMA,
}


class Frozen(NamedTuple):
    release: str
    topic: str
    message: dict[str, Any]
    schema: dict[str, Any]


def frozen() -> list[Frozen]:
    found = []
    for path in sorted(FOLDER.glob("*/*.json")):
        told = json.loads(path.read_text())
        found.append(Frozen(path.parent.name, path.stem, told["message"], told["schema"]))
    return found


def of_this_release() -> dict[str, dict[str, Any]]:
    """A message of each topic with about all that it can say."""
    decision = a_decision(
        a_view(1, state=None, cpu_use=CpuUse(9.0, 1)),
        an_eventful_view(2),
        proposals=(an_action(),),
        nodes=(a_node(),),
        escalations=(a_core_escalation(),),
        steal_ratio=0.1,
    )
    version = wire.MessageVersion(1, 1)
    override = ServerOverride(Mode.OBSERVE, priority=3, latency_target_ms=25.0, max_load=5e5)
    texts = {
        wire.DIGEST_TOPIC: wire.encode(wire.DIGEST_TOPIC, digest(decision, facts(), version, 10.0)),
        wire.REPORT_TOPIC: wire.encode(wire.REPORT_TOPIC, report(decision, facts(), version)),
        wire.ESCALATION_TOPIC: escalation_text(),
        wire.USAGE_TOPIC: usage_text(),
        wire.PROFILES: profiles_text(("m1.small", None, 4)),
        wire.HOST_KEYS: host_keys_text({"vp1": ["one"]}),
        wire.OVERRIDES: overrides_text(3, {VICTIM: override}),
        wire.MODES: modes_text(2, CloudModes(Mode.ENFORCE, {"ssd": Mode.ADVISE})),
        wire.FACTS: facts_text(NOW_S, FACTS),
        wire.LATENCY: latency_text(MESSAGE),
        wire.OVERLAYS: overlays_text(7, [SHOP, BLOG]),
        wire.OVERLAY_CALL: call_text(CallMessage(BORROW, "p1", NOW_MS)),
        wire.OVERLAY_ANSWER: answer_text(CallAnswer("c-1", None, "cap: 1.5 -> 2 CPUs", 30.0)),
    }
    return {topic: json.loads(text) for topic, text in texts.items()}


def main() -> int:
    folder = FOLDER / sys.argv[1]
    folder.mkdir(parents=True)
    for topic, message in of_this_release().items():
        text = json.dumps({"message": message, "schema": SCHEMAS[topic]}, indent=1)
        (folder / f"{topic}.json").write_text(text + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
