# SPDX-License-Identifier: Apache-2.0
"""The numbers behind a proposal or an escalation, as labelled lines. Those of a controller that has
no label here go by their names."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from django.utils.translation import gettext_lazy as _

from vp_client import formatters

LABELS = {
    "measured_loss_ratio": _("Measured loss"),
    "memory_factor_before": _("Memory factor, undisturbed"),
    "memory_factor_now": _("Memory factor, now"),
    "mpki_before": _("MPKI, undisturbed"),
    "mpki_now": _("MPKI, now"),
    "l2_mpki_before": _("L2 misses per 1000 instructions, undisturbed"),
    "l2_mpki_now": _("L2 misses per 1000 instructions, now"),
    "cpi_before": _("CPI, undisturbed"),
    "cpi_now": _("CPI, now"),
    "suspect_misses_per_s": _("LLC misses/s of the aggressor"),
    "suspect_rise_per_s": _("Rise of its LLC misses/s"),
    "suspect_cpu_cores": _("CPUs that the aggressor uses"),
    "waiting_ratio": _("CPU waiting"),
    "misses_per_s": _("LLC misses/s"),
    "predicted_gain_ratio": _("Predicted gain of all servers"),
    "guests": _("Servers that are changed"),
    "cap_ratio": _("CPU cap now"),
    "worst_loss_ratio": _("Loss of the most degraded server"),
    "slack_ratio": _("Latency below its target"),
    "best_effort_cores": _("CPUs of best-effort servers"),
}
RATIO = "_ratio"


class Line(NamedTuple):
    key: str
    label: Any
    value: float
    shown: str


def lines(evidence: Mapping[str, float]) -> Iterator[Line]:
    for key, value in evidence.items():
        label = LABELS.get(key) or key.replace("_", " ")
        is_ratio = key.endswith(RATIO)
        shown = formatters.percent(value) if is_ratio else formatters.number(value)
        yield Line(key, label, value, shown)
