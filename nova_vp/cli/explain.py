# SPDX-License-Identifier: Apache-2.0
"""One server in plain words: what is measured, its state, who hurts it, what was done, what next.

Pure. `openstack vp explain` fills a `Case` from what the API tells its caller, `vp-agent explain`
from the agent's report: who may know less has a case with less in it. What neighbours are called,
and where they are, stands in `hurt` and `done` only if the caller put it there.
"""

import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from nova_vp.cli import labels
from nova_vp.core.model.states import FACTOR_BORDERS, state_seen
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
    ordered: str = ""
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
    return f"It is held guilty of what {victim} suffers since {since}: {meaning}."


def explain(case: Case) -> str:
    """Within WIDTH columns."""
    seen = f", as its host saw it at {case.seen_at}" if case.seen_at else ""
    sections = (
        ("Measured", _measured(case)),
        ("State", _state(case)),
        ("Hurt", _hurt(case)),
        ("Done", _done(case)),
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
    metrics = case.metrics
    if not metrics:
        yield "Nothing is measured of it now."
        return
    yield (
        f"It uses the time of {labels.small(metrics['cpu_cores'])} CPUs and "
        f"{labels.small(metrics['cpi'])} cycles for an instruction. Of 1000 instructions "
        f"{labels.small(metrics['mpki'])} miss the last-level cache (MPKI): "
        f"{metrics['memory_factor']:.0%} of those that look there (memory factor)."
    )
    if metrics.get("remote_ratio", 0) >= 0.01:
        yield f"{metrics['remote_ratio']:.0%} of its misses go to the memory of another NUMA node."


INTENSITIES = {
    Intensity.PUG: "it hardly works in memory",
    Intensity.TERRIER: "it works in memory a good deal",
    Intensity.BULLDOG: "it works in memory most of all",
}
FACTORS = {
    FactorClass.LOW: "the cache holds nearly all that it needs",
    FactorClass.MID: "the cache holds a part of what it needs",
    FactorClass.HIGH: "the cache holds little of what it needs",
}
SENSITIVITIES = {
    "cache": "neighbours that fill the cache",
    "memory": "a busy memory controller",
    "remote-latency": "memory on another node than its CPUs",
}


def _state(case: Case) -> Iterator[str]:
    if case.state is None:
        why = labels.INCOMPLETES.get(case.incomplete, case.incomplete)
        yield f"Not known{f': {why}' if why else ''}."
    else:
        known = State.from_number(case.state)
        since = f", since {case.since}" if case.since else ""
        yield (
            f"{case.state} of 0 to 8 ({known.intensity.name.lower()}){since}: "
            f"{INTENSITIES[known.intensity]}, and {FACTORS[known.factor]}."
        )
        yield from _differs_now(case.metrics, known)
    if case.sensitivity:
        slow = [SENSITIVITIES.get(point, point) for point in case.sensitivity]
        yield f"What would slow it: {', '.join(slow)}."
    elif case.state is not None:
        yield "Its neighbours hardly can slow it."


def _differs_now(metrics: Mapping[str, float], known: State) -> Iterator[str]:
    """Why what is measured may look like another state. Tenants are not told enough of it."""
    if "l2_mpki" not in metrics:
        return
    looks, factor, policy = metrics["l2_mpki"], metrics["memory_factor"], Policy()
    if looks < policy.min_references_pki and factor >= FACTOR_BORDERS[0]:
        yield (
            f"Only {looks:.2g} of 1000 instructions look into the last-level cache: too few for "
            "its memory factor to count."
        )
    now = state_seen(metrics["mpki"], looks, factor, known, policy)
    if now != known:
        yield (
            f"What was measured last looks like {now.number}: the state changes as soon as the "
            "next samples agree."
        )


_IS_HURT = {
    None: "Not known.",
    False: "No neighbour hurts it.",
    True: "Yes, by a neighbour.",
}


def _hurt(case: Case) -> Iterator[str]:
    if not case.hurt:
        yield _IS_HURT[case.is_hurt]
    yield from case.hurt
    yield from case.hurts


def _done(case: Case) -> Iterator[str]:
    if not case.done:
        yield "Nothing so far."
    yield from case.done[-DEEDS:]
    if case.ordered:
        yield f"Ordered by people: {case.ordered}."


def _next(case: Case) -> Iterator[str]:
    if case.is_stale:
        yield "Its host has not been heard of lately: all this is what was known last."
        if case.reader.is_operator:
            yield f"See `{case.reader.host}`, and whether vp-agent runs there."
        else:
            yield "If that lasts, tell your operator."
        return
    if case.unmanaged:
        yield f"It is measured and left alone: {case.unmanaged}."
    is_in_need = case.is_hurt or case.hurt or case.hurts
    if not (is_in_need or case.proposed or case.escalations or case.is_judged):
        yield "Nothing has to be done. Its host looks again every second."
    elif case.reader.is_operator:
        yield from _operators_next(case)
    else:
        yield (
            "Its host knows, and does what your operator lets it do. What was done, and whether it "
            "helped, will stand here."
        )


def _operators_next(case: Case) -> Iterator[str]:
    reader = case.reader
    if case.is_judged:
        yield "What was done is being judged: if it does not help, it is undone."
    for one, status in case.escalations.items():
        yield "Nothing on this host helps: the cluster is asked to have a server migrated" + (
            f": `{reader.escalation} {one}`." if reader.escalation else f" ({one})."
        )
        if status == Status.PROPOSED.value:
            yield f"It waits for you: `{reader.accept_escalation} {one}`."
        elif status:
            yield f"There it is {status}."
    for action_id, what in case.proposed.items():
        yield f"Proposed: {what}."
        if case.mode == "advise":
            yield f"It waits for you: `{reader.accept} {action_id}`."
    if case.mode == "enforce" and not case.escalations and not case.is_judged:
        yield (
            "Its host mends this by itself, the cheapest way that helps first, and undoes what "
            "does not help."
        )
    if case.mode != "enforce":
        more = "nothing else" if case.is_judged else "nothing"
        yield f"Mode {case.mode}: {more} is done unasked. To let it: `{reader.set_mode} enforce`."
    for one in case.refused[:3]:
        yield f"Not done: {one}."
