# SPDX-License-Identifier: Apache-2.0
"""`[policy]`: the decision core's numbers, frozen once read. Agent and scheduler share them."""

import math
from dataclasses import replace
from typing import Any

from oslo_config import cfg, types

from nova_vp.core.types.policy import Controller, Homing, Policy

POLICY = "policy"

_DEFAULT = Policy()

POLICY_OPTS = [
    cfg.IntOpt(
        "dwell_samples",
        default=_DEFAULT.dwell_samples,
        min=1,
        max=60,
        help="Samples in a row that must agree before a VP changes its state.",
    ),
    cfg.FloatOpt(
        "hysteresis_ratio",
        default=_DEFAULT.hysteresis_ratio,
        min=0.0,
        max=0.5,
        help="How far beyond a class border a value must lie to leave the class, as a share of "
        "the border.",
    ),
    cfg.FloatOpt(
        "l2_hold_ratio",
        default=_DEFAULT.l2_hold_ratio,
        min=0.01,
        max=1.0,
        help="L2 misses per 1000 instructions that stay within this share of their undisturbed "
        "value `hold`: a memory factor that rises meanwhile is cache interference.",
    ),
    cfg.FloatOpt(
        "min_instructions_per_s",
        default=_DEFAULT.min_instructions_per_s,
        min=0.0,
        help="A VP that executes fewer is idle and is not classified: ratios of few events are "
        "noise.",
    ),
    cfg.FloatOpt(
        "min_references_pki",
        default=_DEFAULT.min_references_pki,
        min=0.0,
        help="With fewer LLC references per 1000 instructions the memory factor is noise and "
        "counts as low.",
    ),
    cfg.FloatOpt(
        "sensitive_hits_pki",
        default=_DEFAULT.sensitive_hits_pki,
        min=0.0,
        help="A VP that misses little but hits the LLC at least this often per 1000 instructions "
        "has a working set that just fits: it is cache-sensitive although a pug.",
    ),
    cfg.FloatOpt(
        "min_running_ratio",
        default=_DEFAULT.min_running_ratio,
        min=0.0,
        max=1.0,
        help="Samples whose counters ran for a smaller share of the time (multiplexing) are "
        "marked incomplete and not acted on.",
    ),
    cfg.FloatOpt(
        "max_sample_age_s",
        default=_DEFAULT.max_sample_age_s,
        min=0.5,
        help="An interval longer than this (host overload, suspend) is no sample.",
    ),
    cfg.FloatOpt(
        "guilty_rise_ratio",
        default=_DEFAULT.guilty_rise_ratio,
        min=0.0,
        help="A co-runner is a suspect if its LLC misses per second rose by at least this share "
        "since the victim was last undisturbed.",
    ),
    cfg.FloatOpt(
        "guilty_min_share_ratio",
        default=_DEFAULT.guilty_min_share_ratio,
        min=0.0,
        max=1.0,
        help="A co-runner is a suspect only if its rise is at least this share of the victim's "
        "own LLC references per second: who fills little evicts little.",
    ),
    cfg.FloatOpt(
        "miss_penalty_cycles",
        default=_DEFAULT.miss_penalty_cycles,
        min=1.0,
        help="Cycles that an LLC miss costs more than an LLC hit, for `predict`.",
    ),
    cfg.FloatOpt(
        "strict_max_hurt_ratio",
        default=_DEFAULT.strict_max_hurt_ratio,
        min=0.0,
        max=1.0,
        help="Predicted share of performance lost up to which a place is good enough for "
        "`vp:isolation=strict`, and up to which homing balances by CPU alone.",
    ),
    cfg.FloatOpt(
        "effect_window_s",
        default=_DEFAULT.effect_window_s,
        min=1.0,
        help="An action whose victim is not well again after this time is undone as ineffective.",
    ),
    cfg.FloatOpt(
        "reverse_hold_s",
        default=_DEFAULT.reverse_hold_s,
        min=0.0,
        help="No VP is moved back to a domain it left within this time (undo excepted).",
    ),
    cfg.FloatOpt(
        "move_hold_s",
        default=_DEFAULT.move_hold_s,
        min=0.0,
        help="Least time between two moves of one VP.",
    ),
    cfg.IntOpt(
        "moves_per_minute",
        default=_DEFAULT.moves_per_minute,
        min=0,
        help="Mitigating moves that one host may make in a minute.",
    ),
    cfg.ListOpt(
        "controllers",
        default=sorted(one.value for one in _DEFAULT.controllers),
        item_type=types.String(choices=[one.value for one in Controller]),
        help="Who may want something of a guest, besides homing: `vp` mends interference (Virtual "
        "Platforms, thesis chapter 2), `rearrange` finds better places before anybody is seen to "
        "be hurt, `merlin` meets demands for more CPU by the cheapest reconfiguration that hurts "
        "least (thesis chapter 3).",
    ),
    cfg.FloatOpt(
        "cpi_rise_ratio",
        default=_DEFAULT.cpi_rise_ratio,
        min=0.01,
        help="A VP that is sensitive to memory counts as slowed once its cycles per instruction "
        "lie by this share above those of its undisturbed state, while memory factor and L2 misses "
        "hold.",
    ),
    cfg.BoolOpt(
        "hot_node_by_mpki",
        default=_DEFAULT.hot_node_by_mpki,
        help="Judge a NUMA node as the thesis does, by the sum of its VPs' LLC misses per 1000 "
        "instructions, instead of by LLC misses per second against what `vp-agent calibrate` "
        "measured. A CPU cap barely changes misses per instruction.",
    ),
    cfg.FloatOpt(
        "hot_node_mpki",
        default=_DEFAULT.hot_node_mpki,
        min=1.0,
        help="With hot_node_by_mpki: the sum from which on a node is hot. 100 is the thesis's "
        "figure for its machine, from the STREAM benchmark.",
    ),
    cfg.FloatOpt(
        "least_gain_ratio",
        default=_DEFAULT.least_gain_ratio,
        min=0.0,
        help="Least predicted gain, summed over all guests as shares of their performance, for "
        "which anybody is rearranged.",
    ),
    cfg.FloatOpt(
        "most_hurt_ratio",
        default=_DEFAULT.most_hurt_ratio,
        min=0.0,
        max=1.0,
        help="Most that an action may be predicted to cost anybody, as a share of performance; for "
        "a measured victim, half of what it loses if that is more.",
    ),
    cfg.FloatOpt(
        "felt_loss_ratio",
        default=_DEFAULT.felt_loss_ratio,
        min=0.0,
        max=1.0,
        help="Predicted share of performance lost from which on a guest's place is worth a second "
        "look, although its state never changed.",
    ),
    cfg.FloatOpt(
        "noise_ratio",
        default=_DEFAULT.noise_ratio,
        min=0.0,
        max=1.0,
        help="Change of mean cycles per instruction that is taken for noise when an action is "
        "judged by what was measured after it.",
    ),
    cfg.IntOpt(
        "settle_samples",
        default=_DEFAULT.settle_samples,
        min=1,
        max=20,
        help="Samples in one place that make a mean which can be compared.",
    ),
    cfg.FloatOpt(
        "rearrange_after_s",
        default=_DEFAULT.rearrange_after_s,
        min=1.0,
        help="Quiet time after any change of places before guests are rearranged by prediction.",
    ),
    cfg.FloatOpt(
        "cap_probe_s",
        default=_DEFAULT.cap_probe_s,
        min=1.0,
        help="A cap is raised by a tenth once it stood for so long and its victim is well. One "
        "that has to come back is not raised again within reverse_hold_s.",
    ),
    cfg.FloatOpt(
        "memory_move_price_ratio",
        default=_DEFAULT.memory_move_price_ratio,
        min=0.0,
        max=1.0,
        help="Predicted gain that an action which moves memory must bring on top of "
        "least_gain_ratio: copying loads both memory controllers.",
    ),
    cfg.FloatOpt(
        "memory_pace_kib_per_s",
        default=_DEFAULT.memory_pace_kib_per_s,
        min=4096.0,
        help="How fast memory is moved between nodes while nobody minds, in KiB per second.",
    ),
    cfg.FloatOpt(
        "phased_pace_ratio",
        default=_DEFAULT.phased_pace_ratio,
        min=0.01,
        max=1.0,
        help="Share of that pace while a memory controller that copies is busy and serves a VP "
        "which is sensitive to it, unless the guest that moves has the higher priority.",
    ),
    cfg.FloatOpt(
        "partition_llc_ratio",
        default=_DEFAULT.partition_llc_ratio,
        min=0.01,
        max=1.0,
        help="Share of the LLC that is left to a VP which lives off no cache and evicts others, "
        "where the hardware can partition it (resctrl).",
    ),
    cfg.FloatOpt(
        "partition_bandwidth_ratio",
        default=_DEFAULT.partition_bandwidth_ratio,
        min=0.01,
        max=1.0,
        help="Share of the memory bandwidth that is left to a VP which overloads a controller, "
        "where the hardware can limit it (resctrl).",
    ),
    cfg.FloatOpt(
        "escalate_after_s",
        default=_DEFAULT.escalate_after_s,
        min=1.0,
        help="A VP that is hurt for so long and that nothing on this node helps is told to the "
        "cluster.",
    ),
    cfg.FloatOpt(
        "demand_sensitivity",
        default=_DEFAULT.demand_sensitivity,
        min=0.1,
        max=1.0,
        help="Merlin: a VP that uses more than this share of its allotted CPU asks for more.",
    ),
    cfg.FloatOpt(
        "epoch_s",
        default=_DEFAULT.epoch_s,
        min=1.0,
        help="Merlin: least time between two reconfigurations for one VP.",
    ),
    cfg.FloatOpt(
        "repercussion_s",
        default=_DEFAULT.repercussion_s,
        min=1.0,
        help="Merlin: a co-runner whose state gets worse within this time after a reconfiguration "
        "was hurt by it.",
    ),
    cfg.FloatOpt(
        "epsilon",
        default=_DEFAULT.epsilon,
        min=0.0,
        max=1.0,
        help="Merlin: difference of weighted degradations between two VPs that counts as fair.",
    ),
    cfg.StrOpt(
        "home_on_arrival",
        default=_DEFAULT.home_on_arrival.value,
        choices=[
            (Homing.NEVER.value, "leave placement at arrival to the kernel"),
            (
                Homing.ENFORCE.value,
                "home VPs while the mode is `enforce`, propose it while it is `advise`",
            ),
            (Homing.ALWAYS.value, "home VPs in every mode, `observe` included"),
        ],
        help="Whether a VP gets one LLC domain when it arrives. That is placement, not "
        "mitigation: journalled and undone like the rest.",
    ),
]
for _option in POLICY_OPTS:
    _option.mutable = True  # The core is given its numbers anew with every tick.


def register_opts(conf: cfg.ConfigOpts) -> None:
    conf.register_opts(POLICY_OPTS, group=POLICY)


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    return [(POLICY, POLICY_OPTS)]


def policy_from(conf: cfg.ConfigOpts) -> Policy:
    """The decision core's numbers, frozen once read."""
    return Policy(**{opt.dest: _value(opt.dest, conf[POLICY][opt.dest]) for opt in POLICY_OPTS})


def with_option(policy: Policy, name: str, text: str) -> Policy:
    """One option as a file would have it. Raises ValueError, which says what is allowed."""
    known = {opt.dest: opt for opt in POLICY_OPTS}
    if name not in known:
        raise ValueError(f"no policy option {name!r}: one of {', '.join(sorted(known))}")
    try:
        value = known[name].type(text)
    except ValueError as exc:
        raise ValueError(f"{name}={text}: {exc}") from None
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{name}={text}: give a finite number")
    return replace(policy, **{name: _value(name, value)})


def _value(name: str, value: Any) -> Any:
    """As the core has it."""
    if name == "home_on_arrival":
        return Homing(value)
    return frozenset(map(Controller, value)) if name == "controllers" else value
