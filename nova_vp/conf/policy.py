# SPDX-License-Identifier: Apache-2.0
"""`[policy]`: the decision core's numbers, frozen once read together with those of its controllers.

Agent and scheduler share them. The options of a controller's own are in `controller_settings.py`.
"""

import dataclasses
import math
from dataclasses import replace
from typing import Any

from oslo_config import cfg

from nova_vp import controllers
from nova_vp.conf import islands
from nova_vp.conf.controller_settings import (
    POLICY,
    controllers_opt,
    group_of,
    settings_from,
    settings_opts,
    value_of,
)
from nova_vp.core.types.policy import Policy

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
        "of degradation. It holds for a server until its own samples show what a miss costs it.",
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
        "rejected_hold_s",
        default=_DEFAULT.rejected_hold_s,
        min=0.0,
        help="Seconds during which a proposal that an operator rejected is not made again. The "
        "hold ends early if the degradation that the proposal was for ends, and when the agent "
        "restarts. 0: it may be made again at once.",
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
    cfg.IntOpt(
        "actions_per_victim_hour",
        default=_DEFAULT.actions_per_victim_hour,
        min=0,
        help="Maximum number of mitigating actions per hour that change other servers of a host "
        "for one degraded server. A guest controls its own counters, so it can act degraded. "
        "Moves of the degraded server itself are not limited by this. The default allows to cap "
        "two aggressors step by step to the default floor.",
    ),
    cfg.IntOpt(
        "actions_per_project_hour",
        default=_DEFAULT.actions_per_project_hour,
        min=0,
        help="Maximum number of mitigating actions per hour that change other servers of a host "
        "for all degraded servers of one project together.",
    ),
    cfg.IntOpt(
        "actions_without_gain",
        default=_DEFAULT.actions_without_gain,
        min=1,
        help="Number of consecutive actions on other servers that did not help one degraded "
        "server, after which no other server is changed for it within reverse_hold_s. Each "
        "further hold in a row is twice as long, up to 16 times.",
    ),
    cfg.FloatOpt(
        "cpi_rise_ratio",
        default=_DEFAULT.cpi_rise_ratio,
        min=0.01,
        help="Share by which the cycles per instruction of a memory-sensitive server must exceed "
        "their undisturbed value, while memory factor and L2 misses are unchanged, before it "
        "counts as degraded.",
    ),
    cfg.FloatOpt(
        "cpu_waiting_ratio",
        default=_DEFAULT.cpu_waiting_ratio,
        min=0.01,
        max=1.0,
        help="Share of the CPU time a server wants that it waits for a CPU, from which it counts "
        "as degraded if other servers use its CPUs. An action that makes a server wait by so much "
        "more is reverted. Time in which a quota throttles the server is no waiting.",
    ),
    cfg.BoolOpt(
        "hot_node_by_mpki",
        default=_DEFAULT.hot_node_by_mpki,
        help="Detect a hot NUMA node by the sum of LLC misses per 1000 instructions of its "
        "servers, as the thesis does, also on a calibrated host. False, the default, does so only "
        "until the host is calibrated, and then compares LLC misses per second with the result of "
        "`vp-agent calibrate`. A CPU cap lowers misses per second, but hardly changes misses per "
        "instruction.",
    ),
    cfg.FloatOpt(
        "hot_node_mpki",
        default=_DEFAULT.hot_node_mpki,
        min=1.0,
        help="Sum of LLC misses per 1000 instructions from which a NUMA node is hot, on a host "
        "that is not calibrated or with hot_node_by_mpki. The default is the value of the thesis "
        "for its machine, from the STREAM benchmark.",
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
        "priority is copied at the full rate, and so is one whose copy adds less than a tenth to "
        "what the busy memory controllers serve.",
    ),
    cfg.FloatOpt(
        "llc_floor_ratio",
        default=_DEFAULT.llc_floor_ratio,
        min=0.01,
        max=1.0,
        help="Share of the LLC that every server keeps, whatever controllers limit it to.",
    ),
    cfg.FloatOpt(
        "membw_floor_ratio",
        default=_DEFAULT.membw_floor_ratio,
        min=0.01,
        max=1.0,
        help="Share of the memory bandwidth that every server keeps, whatever controllers limit "
        "it to.",
    ),
    cfg.FloatOpt(
        "probation_s",
        default=_DEFAULT.probation_s,
        min=0.0,
        help="Seconds after a limit of a server was raised or removed, in which it is the first "
        "suspect for a new degradation.",
    ),
    cfg.FloatOpt(
        "escalate_after_s",
        default=_DEFAULT.escalate_after_s,
        min=1.0,
        help="Seconds of unresolved interference before escalation: no action on the host helped "
        "the server.",
    ),
]
for _option in POLICY_OPTS:
    _option.mutable = True  # The core is given its numbers anew with every tick.


def register_opts(conf: cfg.ConfigOpts) -> None:
    for group, options in list_opts():
        conf.register_opts(options, group=group)


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    own = [
        (group_of(name), opts)
        for name, one in controllers.installed().items()
        if (opts := settings_opts(one))
    ]
    return [(POLICY, [*POLICY_OPTS, controllers_opt()]), *own, *islands.list_opts()]


def policy_from(conf: cfg.ConfigOpts) -> Policy:
    """The decision core's numbers, frozen once read."""
    numbers = Policy(**{opt.dest: conf[POLICY][opt.dest] for opt in POLICY_OPTS})
    policy = controllers.with_controllers(numbers, conf[POLICY].controllers)
    for one in policy.controllers:
        name = one.controller.name
        read = settings_from(one.controller, conf[group_of(name)].__getitem__)
        policy = controllers.with_settings(policy, name, **_fields_of(read))
    return islands.with_islands(policy, conf)


def _fields_of(settings: Any) -> dict[str, Any]:
    return {field.name: getattr(settings, field.name) for field in dataclasses.fields(settings)}


def with_option(policy: Policy, name: str, text: str) -> Policy:
    """One option as a file would have it: `moves_per_minute`, or `merlin.epoch_s` for one of a
    controller's own. Raises ValueError, which says what is allowed."""
    if name == "controllers":
        chosen = [part.strip() for part in text.split(",") if part.strip()]
        try:
            return controllers.with_controllers(policy, chosen)
        except controllers.ControllerUnavailable as exc:
            raise ValueError(f"{name}={text}: {exc}") from None
    known = {opt.dest: ("", opt) for opt in POLICY_OPTS}
    for one in policy.controllers:
        for opt in settings_opts(one.controller):
            known[f"{one.controller.name}.{opt.dest}"] = (one.controller.name, opt)
    if name not in known:
        listed = ", ".join(sorted((*known, "controllers")))
        raise ValueError(f"{name!r} is not a policy option: use one of {listed}")
    owner, option = known[name]
    try:
        value = option.type(text)
    except ValueError as exc:
        raise ValueError(f"{name}={text}: {exc}") from None
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{name}={text}: give a finite number")
    if not owner:
        return replace(policy, **{name: value})
    kind = type(next(e.settings for e in policy.controllers if e.controller.name == owner))
    field = next(f for f in dataclasses.fields(kind) if f.name == option.dest)
    return controllers.with_settings(policy, owner, **{field.name: value_of(field, value)})
