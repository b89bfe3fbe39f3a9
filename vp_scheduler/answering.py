# SPDX-License-Identifier: Apache-2.0
"""The parts of a vp-scheduler whose callers wait for answers, each on a queue of its own."""

from typing import NamedTuple

from vp_scheduler.escalation.service import EscalationService
from vp_scheduler.ingest.usage import UsageService
from vp_scheduler.relay.service import OverlayCallService


class Answering(NamedTuple):
    escalations: EscalationService
    usage: UsageService
    overlay_calls: OverlayCallService
