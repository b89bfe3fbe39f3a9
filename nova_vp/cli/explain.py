# SPDX-License-Identifier: Apache-2.0
"""One server in plain words: measurements, state, degradation and aggressors, actions, next steps.

Pure. `openstack vp explain` fills a `Case` from what the API tells its caller, `vp-agent explain`
from the agent's report: who may know less has a case with less in it. What neighbours are called,
and where they are, stands in `hurt` and `done` only if the caller put it there.
"""

import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from nova_vp.cli import labels
from nova_vp.core.model.states import FACTOR_BORDERS, state_seen
from nova_vp.core.signals.detect_cpu import Unjudged, why_unjudged
from nova_vp.core.types.cpu_time import CpuUse
from nova_vp.core.types.policy import Policy
from nova_vp.core.types.sample import FactorClass, Intensity, State
from nova_vp.escalation_status import Status

WIDTH = 100
LABEL = 10
DEEDS = 5
"""The latest ones are told."""


@dataclass(frozen=True, slots=True)
class Reader:
    """What the one who asks can do next. Empty: is a tenant, and can do nothing about hosts."""

    accept: str = ""
    """Command to which the id of a proposal is added."""
    set_mode: str = ""
    """Command to which a mode is added."""
    escalation: str = ""
    """Command to which the id of an escalation is added; empty where none shows it."""
    accept_escalation: str = ""
    """Command to which the id of one that is proposed is added."""
    host: str = ""
    """Command that says how the host is."""

    @property
    def is_operator(self) -> bool:
        return bool(self.accept)


@dataclass(frozen=True, slots=True)
class Case:
    name: str
    reader: Reader
    seen_at: str = ""
    """Empty: its reader is not told, since that is its host's affair."""
    is_stale: bool = False
    """All else is what held when its host was last heard."""
    metrics: Mapping[str, float] = field(default_factory=dict)
    cpu_use: Mapping[str, float] = field(default_factory=dict)
    """By name, as a report has it; empty: unknown."""
    state: int | None = None
    since: str = ""
    incomplete: str = ""
    """Why it has no state: a code."""
    sensitivity: tuple[str, ...] = ()
    is_hurt: bool | None = None
    hurt: tuple[str, ...] = ()
    """By what, be it nobody's doing, since when and by whom; for tenants nothing."""
    hurts: tuple[str, ...] = ()
    """Whom it hurts itself; for tenants nothing."""
    refused: tuple[str, ...] = ()
    """What cannot be done against it, and why."""
    unmanaged: str = ""
    overridden: str = ""
    done: tuple[str, ...] = ()
    """The latest last."""
    proposed: Mapping[str, str] = field(default_factory=dict)
    """What would be done, by id."""
    is_judged: bool = False
    """Something was done that must still prove itself."""
    escalations: Mapping[str, str] = field(default_factory=dict)
    """How far the cluster is with each, by id; empty: that is not known here."""
    mode: str = ""
    """What its host may do with it."""


def harming(victim: str, since: str, meaning: str) -> str:
    return f"It is a suspected aggressor: {victim} has been degraded since {since}: {meaning}."


def explain(case: Case) -> str:
    """Within WIDTH columns."""
    seen = f", reported by its host at {case.seen_at}" if case.seen_at else ""
    sections = (
        ("Measured", _measured(case)),
        ("State", _state(case)),
        ("Degraded", _hurt(case)),
        ("Actions", _done(case)),
        ("Next", _next(case)),
    )
    told = [_section(label, sentences) for label, sentences in sections]
    return "\n".join([textwrap.fill(f"{case.name}{seen}", WIDTH), "", *told])


def _section(label: str, sentences: Iterator[str]) -> str:
    blank = " " * LABEL
    lines = [
        textwrap.fill(
            sentence,
            WIDTH,
            initial_indent=blank,
            subsequent_indent=blank,
            break_on_hyphens=False,
        )
        for sentence in sentences
    ]
    return label.ljust(LABEL) + "\n".join(lines)[LABEL:]


def _measured(case: Case) -> Iterator[str]:
    yield from _rates(case.metrics)
    if case.cpu_use:
        yield f"CPU time that it wants: {labels.cpu_use(case.cpu_use)}."
    if case.metrics and not case.is_stale and (why := _unjudged(case)):
        yield f"Waiting for a CPU is not judged: {labels.UNJUDGED[why]}."


def _unjudged(case: Case) -> Unjudged | None:
    """By the core's own rule, from the shares that a report has. Those are means of many samples:
    of what began a moment ago nothing is said."""
    if not case.cpu_use:
        return Unjudged.UNKNOWN
    throttled = case.cpu_use["throttled_ratio_ours"] + case.cpu_use["throttled_ratio_nova"]
    ran_cores = case.metrics["cpu_cores"]
    waited = case.cpu_use["waiting_ratio"] * (1 - throttled)
    ran = max(1 - throttled - waited, 0.001)
    wanted_cores = ran_cores / ran
    policy = Policy()
    use = CpuUse(
        at_s=0.0,
        samples=policy.dwell_samples,
        ran_cores=ran_cores,
        run_delay_cores=(waited + throttled) * wanted_cores,
        throttled_ours_cores=throttled * wanted_cores,
    )
    return why_unjudged(use, policy)


def _rates(metrics: Mapping[str, float]) -> Iterator[str]:
    if not metrics:
        yield "There is no current measurement."
        return
    yield (
        f"CPUs in use: {labels.small(metrics['cpu_cores'])}. Cycles per instruction (CPI): "
        f"{labels.small(metrics['cpi'])}. Last-level cache misses per 1000 instructions (MPKI): "
        f"{labels.small(metrics['mpki'])}. Share of last-level cache accesses that miss (memory "
        f"factor): {metrics['memory_factor']:.0%}."
    )
    if metrics.get("remote_ratio", 0) >= 0.01:
        yield f"Share of misses served by another NUMA node: {metrics['remote_ratio']:.0%}."


INTENSITIES = {
    Intensity.PUG: "it uses little memory bandwidth",
    Intensity.TERRIER: "it uses some memory bandwidth",
    Intensity.BULLDOG: "it is memory-intensive",
}
FACTORS = {
    FactorClass.LOW: "most of its last-level cache accesses hit",
    FactorClass.MID: "some of its last-level cache accesses miss",
    FactorClass.HIGH: "most of its last-level cache accesses miss",
}
SENSITIVITIES = {
    "cache": "neighbours that fill the last-level cache",
    "memory": "a busy memory controller",
    "remote-latency": "memory on another NUMA node",
}


def _state(case: Case) -> Iterator[str]:
    if case.state is None:
        why = labels.INCOMPLETES.get(case.incomplete, case.incomplete)
        yield f"Unknown{f': {why}' if why else ''}."
    else:
        known = State.from_number(case.state)
        since = f", since {case.since}" if case.since else ""
        name = f" ({known.intensity.name.lower()})" if case.reader.is_operator else ""
        yield (
            f"{case.state} of 0 to 8{name}{since}: "
            f"{INTENSITIES[known.intensity]}, and {FACTORS[known.factor]}."
        )
        yield from _differs_now(case.metrics, known)
    if case.sensitivity:
        slow = [SENSITIVITIES.get(point, point) for point in case.sensitivity]
        yield f"It is sensitive to: {', '.join(slow)}."
    elif case.state is not None:
        yield "It is not sensitive to its neighbours."


def _differs_now(metrics: Mapping[str, float], known: State) -> Iterator[str]:
    """Why what is measured may look like another state. Tenants are not told enough of it."""
    if "l2_mpki" not in metrics:
        return
    looks, factor, policy = metrics["l2_mpki"], metrics["memory_factor"], Policy()
    if looks < policy.min_references_pki and factor >= FACTOR_BORDERS[0]:
        yield (
            f"It has only {looks:.2g} last-level cache accesses per 1000 instructions. Its memory "
            "factor is therefore not used."
        )
    now = state_seen(metrics["mpki"], looks, factor, known, policy)
    if now != known:
        yield (
            f"The last sample corresponds to state {now.number}. The state changes if the next "
            "samples agree."
        )


_IS_HURT = {
    None: "Unknown.",
    False: "No.",
    True: "Yes, by a neighbour.",
}


def _hurt(case: Case) -> Iterator[str]:
    if not case.hurt:
        yield _IS_HURT[case.is_hurt]
    yield from case.hurt
    yield from case.hurts


def _done(case: Case) -> Iterator[str]:
    if not case.done:
        yield "None so far."
    yield from case.done[-DEEDS:]
    if case.overridden:
        yield f"Override: {case.overridden}."


def _next(case: Case) -> Iterator[str]:
    if case.is_stale:
        yield "Its host has not reported recently. These are the last known values."
        if case.reader.is_operator:
            yield f"See `{case.reader.host}`, and check that vp-agent runs on the host."
        else:
            yield "If this persists, contact your operator."
        return
    if case.unmanaged:
        yield f"It is measured, but not changed: {case.unmanaged}."
    is_in_need = case.is_hurt or case.hurt or case.hurts
    if not (is_in_need or case.proposed or case.escalations or case.is_judged):
        yield "No action is needed. Its host continues to measure it."
    elif case.reader.is_operator:
        yield from _operators_next(case)
    else:
        yield (
            "Its host mitigates this as far as your operator allows. Run this command again to see "
            "the actions and their results."
        )


def _operators_next(case: Case) -> Iterator[str]:
    reader = case.reader
    if case.is_judged:
        yield "The last action is being verified. It is reverted if it has no effect."
    for one, status in case.escalations.items():
        yield "No action on this host helps. The cluster is asked to live-migrate a server" + (
            f": `{reader.escalation} {one}`." if reader.escalation else f" ({one})."
        )
        if status == Status.PROPOSED.value:
            yield f"To start the migration: `{reader.accept_escalation} {one}`."
        elif status:
            yield f"Status of this escalation: {status}."
    for action_id, what in case.proposed.items():
        yield f"Proposed: {what}."
        if case.mode == "advise":
            yield f"To accept it: `{reader.accept} {action_id}`."
    if case.mode == "enforce" and not case.escalations and not case.is_judged:
        yield (
            "Its host applies the cheapest action that is predicted to help, and reverts it if it "
            "has no effect."
        )
    if case.mode != "enforce":
        more = "nothing else" if case.is_judged else "nothing"
        yield (
            f"In mode {case.mode}, the host applies {more} automatically. To change this: "
            f"`{reader.set_mode} enforce`."
        )
    for one in case.refused[:3]:
        yield f"Rejected: {one}."
