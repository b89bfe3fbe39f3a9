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
        help="Consecutive samples that must agree before a server changes its state. The default "
        "ignores single outliers.",
    ),
    cfg.FloatOpt(
        "hysteresis_ratio",
        default=_DEFAULT.hysteresis_ratio,
        min=0.0,
        max=0.5,
        help="Share of a class border by which a value must pass the border before a server "
        "leaves its class. The default prevents that values near a border change the state back "
        "and forth.",
    ),
    cfg.FloatOpt(
        "l2_hold_ratio",
        default=_DEFAULT.l2_hold_ratio,
        min=0.01,
        max=1.0,
        help="Share of the undisturbed value within which L2 misses per 1000 instructions count "
        "as unchanged. A memory factor that rises while they are unchanged is cache "
        "interference; otherwise the work of the server itself has changed.",
    ),
    cfg.FloatOpt(
        "min_instructions_per_s",
        default=_DEFAULT.min_instructions_per_s,
        min=0.0,
        help="Instructions per second below which a server is idle and gets no state. Ratios of "
        "few events are noise.",
    ),
    cfg.FloatOpt(
        "min_references_pki",
        default=_DEFAULT.min_references_pki,
        min=0.0,
        help="LLC references per 1000 instructions below which the memory factor counts as low. "
        "Ratios of few events are noise.",
    ),
    cfg.FloatOpt(
        "sensitive_hits_pki",
        default=_DEFAULT.sensitive_hits_pki,
        min=0.0,
        help="LLC hits per 1000 instructions from which a server with few misses is "
        "cache-sensitive: its working set just fits into the cache.",
    ),
    cfg.FloatOpt(
        "min_running_ratio",
        default=_DEFAULT.min_running_ratio,
        min=0.0,
        max=1.0,
        help="Least share of an interval in which the hardware counters must have run. Samples "
        "below it (multiplexing) are incomplete and cause no action.",
    ),
    cfg.FloatOpt(
        "max_sample_age_s",
        default=_DEFAULT.max_sample_age_s,
        min=0.5,
        help="Longest interval between two readings, in seconds. A longer interval (overloaded "
        "or suspended host) gives no sample.",
    ),
    cfg.FloatOpt(
        "guilty_rise_ratio",
        default=_DEFAULT.guilty_rise_ratio,
        min=0.0,
        help="A neighbour is a suspected aggressor only if its LLC misses per second rose by at "
        "least this share since the victim was last undisturbed.",
    ),
    cfg.FloatOpt(
        "guilty_min_share_ratio",
        default=_DEFAULT.guilty_min_share_ratio,
        min=0.0,
        max=1.0,
        help="A neighbour is a suspected aggressor only if its rise is at least this share of "
        "the LLC references per second of the victim. A neighbour that fills little of the cache "
        "evicts little.",
    ),
    cfg.FloatOpt(
        "miss_penalty_cycles",
        default=_DEFAULT.miss_penalty_cycles,
        min=1.0,
        help="Additional CPU cycles of an LLC miss compared with an LLC hit, for the prediction "
        "of degradation.",
    ),
    cfg.FloatOpt(
        "strict_max_hurt_ratio",
        default=_DEFAULT.strict_max_hurt_ratio,
        min=0.0,
        max=1.0,
        help="Largest predicted loss of performance, as a share, at which a place is accepted "
        "for `vp:isolation=strict`. Below it, new servers are placed by CPU load alone. Set the "
        "same value on the hosts and for nova-scheduler.",
    ),
    cfg.FloatOpt(
        "effect_window_s",
        default=_DEFAULT.effect_window_s,
        min=1.0,
        help="Seconds after an action within which its victim must recover. Otherwise the action "
        "is reverted as ineffective.",
    ),
    cfg.FloatOpt(
        "reverse_hold_s",
        default=_DEFAULT.reverse_hold_s,
        min=0.0,
        help="Seconds during which no server is moved back to an LLC domain that it left, and no "
        "ineffective action is repeated. Reverting an action is exempt. The default prevents "
        "that servers move back and forth.",
    ),
    cfg.FloatOpt(
        "move_hold_s",
        default=_DEFAULT.move_hold_s,
        min=0.0,
        help="Least number of seconds between two moves of one server.",
    ),
    cfg.IntOpt(
        "moves_per_minute",
        default=_DEFAULT.moves_per_minute,
        min=0,
        help="Maximum number of mitigating actions of one host per minute.",
    ),
    cfg.ListOpt(
        "controllers",
        default=sorted(one.value for one in _DEFAULT.controllers),
        item_type=types.String(choices=[one.value for one in Controller]),
        help="Enabled controllers. `vp` mitigates interference (Virtual Platforms thesis, "
        "chapter 2). `rearrange` rebalances servers by prediction, before a degradation is "
        "measured. `merlin` gives servers more CPU by the cheapest reconfiguration (thesis, "
        "chapter 3). For the placement of new servers see home_on_arrival.",
    ),
    cfg.FloatOpt(
        "cpi_rise_ratio",
        default=_DEFAULT.cpi_rise_ratio,
        min=0.01,
        help="Share by which the cycles per instruction of a memory-sensitive server must exceed "
        "their undisturbed value, while memory factor and L2 misses are unchanged, before it "
        "counts as degraded.",
    ),
    cfg.BoolOpt(
        "hot_node_by_mpki",
        default=_DEFAULT.hot_node_by_mpki,
        help="Detect a hot NUMA node by the sum of LLC misses per 1000 instructions of its "
        "servers, as the thesis does. False, the default, compares LLC misses per second with "
        "the result of `vp-agent calibrate`. A CPU cap lowers misses per second, but hardly "
        "changes misses per instruction.",
    ),
    cfg.FloatOpt(
        "hot_node_mpki",
        default=_DEFAULT.hot_node_mpki,
        min=1.0,
        help="With hot_node_by_mpki: sum from which a NUMA node is hot. The default is the value "
        "of the thesis for its machine, from the STREAM benchmark.",
    ),
    cfg.FloatOpt(
        "least_gain_ratio",
        default=_DEFAULT.least_gain_ratio,
        min=0.0,
        help="Least predicted gain for which servers are rebalanced, summed over all servers as "
        "shares of their performance. Smaller gains are within the error of the prediction.",
    ),
    cfg.FloatOpt(
        "most_hurt_ratio",
        default=_DEFAULT.most_hurt_ratio,
        min=0.0,
        max=1.0,
        help="Largest predicted loss of performance, as a share, that an action may cause to any "
        "server. For the mitigation of a measured degradation the limit is half of the loss of "
        "the victim, if that is more.",
    ),
    cfg.FloatOpt(
        "felt_loss_ratio",
        default=_DEFAULT.felt_loss_ratio,
        min=0.0,
        max=1.0,
        help="Predicted loss of performance, as a share, from which `rearrange` looks for a "
        "better place for a server whose state never changed.",
    ),
    cfg.FloatOpt(
        "noise_ratio",
        default=_DEFAULT.noise_ratio,
        min=0.0,
        max=1.0,
        help="Change of the mean cycles per instruction, as a share, that counts as noise when "
        "the effect of an action is verified.",
    ),
    cfg.IntOpt(
        "settle_samples",
        default=_DEFAULT.settle_samples,
        min=1,
        max=20,
        help="Number of samples in one place that give a comparable mean.",
    ),
    cfg.FloatOpt(
        "rearrange_after_s",
        default=_DEFAULT.rearrange_after_s,
        min=1.0,
        help="Seconds without any change of placement before servers are rebalanced by prediction.",
    ),
    cfg.FloatOpt(
        "cap_probe_s",
        default=_DEFAULT.cap_probe_s,
        min=1.0,
        help="Seconds after which a CPU cap is raised by one step of a tenth, if its victim is "
        "no longer degraded. If the cap has to be lowered again, it is not raised within "
        "reverse_hold_s.",
    ),
    cfg.FloatOpt(
        "memory_move_price_ratio",
        default=_DEFAULT.memory_move_price_ratio,
        min=0.0,
        max=1.0,
        help="Predicted gain that an action which moves memory must bring in addition to "
        "least_gain_ratio, because the copy loads both memory controllers.",
    ),
    cfg.FloatOpt(
        "memory_pace_kib_per_s",
        default=_DEFAULT.memory_pace_kib_per_s,
        min=4096.0,
        help="Rate at which memory is moved between NUMA nodes while no sensitive server is "
        "affected, in KiB per second.",
    ),
    cfg.FloatOpt(
        "phased_pace_ratio",
        default=_DEFAULT.phased_pace_ratio,
        min=0.01,
        max=1.0,
        help="Share of memory_pace_kib_per_s that applies while a busy memory controller takes "
        "part in the copy and serves a memory-sensitive server. A moved server with the higher "
        "priority is copied at the full rate.",
    ),
    cfg.FloatOpt(
        "partition_llc_ratio",
        default=_DEFAULT.partition_llc_ratio,
        min=0.01,
        max=1.0,
        help="Share of the LLC that remains for an aggressor that does not need the cache "
        "itself, if the hardware can partition the cache (resctrl).",
    ),
    cfg.FloatOpt(
        "partition_bandwidth_ratio",
        default=_DEFAULT.partition_bandwidth_ratio,
        min=0.01,
        max=1.0,
        help="Share of the memory bandwidth that remains for an aggressor that overloads a "
        "memory controller, if the hardware can limit the bandwidth (resctrl).",
    ),
    cfg.FloatOpt(
        "escalate_after_s",
        default=_DEFAULT.escalate_after_s,
        min=1.0,
        help="Seconds of unresolved interference before escalation: no action on the host helped "
        "the server.",
    ),
    cfg.FloatOpt(
        "demand_sensitivity",
        default=_DEFAULT.demand_sensitivity,
        min=0.1,
        max=1.0,
        help="Merlin: share of its allotted CPU above which a server gets more CPU.",
    ),
    cfg.FloatOpt(
        "epoch_s",
        default=_DEFAULT.epoch_s,
        min=1.0,
        help="Merlin: least number of seconds between two reconfigurations for one server.",
    ),
    cfg.FloatOpt(
        "repercussion_s",
        default=_DEFAULT.repercussion_s,
        min=1.0,
        help="Merlin: seconds after a reconfiguration in which a neighbour that gets degraded "
        "counts as degraded by it.",
    ),
    cfg.FloatOpt(
        "epsilon",
        default=_DEFAULT.epsilon,
        min=0.0,
        max=1.0,
        help="Merlin: difference of the weighted degradations of two servers up to which a "
        "distribution counts as fair.",
    ),
    cfg.StrOpt(
        "home_on_arrival",
        default=_DEFAULT.home_on_arrival.value,
        choices=[
            (Homing.NEVER.value, "leave the initial placement to the kernel"),
            (
                Homing.ENFORCE.value,
                "place new servers in mode `enforce`, propose their placement in mode `advise`",
            ),
            (Homing.ALWAYS.value, "place new servers in every mode, including `observe`"),
        ],
        help="Whether a new server is placed on the CPUs of one LLC domain. This is initial "
        "placement, not mitigation. It is journalled and reverted like every other change.",
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
        raise ValueError(f"{name!r} is not a policy option: use one of {', '.join(sorted(known))}")
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
