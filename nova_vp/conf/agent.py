# SPDX-License-Identifier: Apache-2.0
"""`[agent]` and `[policy]`: what the agent of one host may do, and the decision's numbers."""

from oslo_config import cfg

from nova_vp.core.model import Homing, Mode, Policy

AGENT = "agent"
POLICY = "policy"

AGENT_OPTS = [
    cfg.StrOpt(
        "host",
        sample_default="<the machine's host name>",
        help="Name under which this host publishes. It must equal nova-compute's [DEFAULT] host, "
        "since the scheduler looks reports up by it. Unset: the machine's host name.",
    ),
    cfg.StrOpt(
        "mode",
        default=Mode.OBSERVE.value,
        choices=[
            (Mode.OBSERVE.value, "measure and report, change nothing"),
            (Mode.ADVISE.value, "propose actions, apply those an operator accepts"),
            (Mode.ENFORCE.value, "apply actions"),
        ],
        help="What the agent may do after its first start. A mode set later, by the API or by "
        "`vp-agent mode`, is remembered in the state folder and wins over this option.",
    ),
    cfg.StrOpt(
        "counters",
        default="auto",
        help="Counter source: a name from the entry points `vp_agent.counters` (perf, libvirt, "
        "vpmu), or `auto` for the best that works on this host.",
    ),
    cfg.StrOpt(
        "actuator",
        default="kernel",
        help="How vCPUs are placed: a name from the entry points `vp_agent.actuators`. `kernel` "
        "leaves nothing in the domain XML, so that nothing travels with a live migration; "
        "`libvirt` is seen by virsh, and needs the migrate hook on every host.",
    ),
    cfg.FloatOpt(
        "interval_s",
        default=1.0,
        min=0.1,
        max=60.0,
        help="Seconds between samples. One second is what the Virtual Platforms thesis (Tembey, "
        "Georgia Tech, 2013), from which the nine states come, measures with.",
    ),
    cfg.StrOpt(
        "state_directory",
        default="/var/lib/nova-vp",
        help="Folder for what outlives a restart: the mode and the undisturbed profiles.",
    ),
    cfg.StrOpt(
        "run_directory",
        default="/run/nova-vp",
        help="Folder for the agent's lock and its control socket.",
    ),
    cfg.StrOpt(
        "libvirt_uri",
        default="qemu:///system",
        help="Connection URI of the local libvirt.",
    ),
    cfg.StrOpt(
        "vpmu_directory",
        default="/run/vpmu",
        help="Folder in which the software PMU of a test host keeps its counters.",
    ),
]

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


def register_opts(conf: cfg.ConfigOpts) -> None:
    conf.register_opts(AGENT_OPTS, group=AGENT)
    conf.register_opts(POLICY_OPTS, group=POLICY)


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    return [(AGENT, AGENT_OPTS), (POLICY, POLICY_OPTS)]


def policy_from(conf: cfg.ConfigOpts) -> Policy:
    """The decision core's numbers, frozen once read."""
    values = {opt.dest: conf[POLICY][opt.dest] for opt in POLICY_OPTS}
    values["home_on_arrival"] = Homing(values["home_on_arrival"])
    return Policy(**values)
