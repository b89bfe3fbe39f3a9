# SPDX-License-Identifier: Apache-2.0
"""`[agent]`: what the agent of one host may do, and by which means."""

from oslo_config import cfg

from nova_vp.conf.common import metrics_opts
from nova_vp.core.types.policy import Mode
from nova_vp.core.types.topology import Limits

AGENT = "agent"

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
    cfg.StrOpt(
        "partition",
        default="auto",
        help="What holds back a guest's share of the last-level cache and of the memory "
        "bandwidth: a name from the entry points `vp_agent.partition` (resctrl), `auto` for what "
        "this host's CPU and the agent's rights allow, or `none`.",
    ),
    cfg.StrOpt(
        "memory",
        default="pages",
        help="What moves guests' memory between NUMA nodes: a name from the entry points "
        "`vp_agent.memory`. `pages` asks the kernel to move it page by page, and needs "
        "CAP_SYS_PTRACE; `none` only moves back what was moved before. A host with one node moves "
        "none either way.",
    ),
    cfg.FloatOpt(
        "memory_reserve_ratio",
        default=0.05,
        min=0.0,
        max=0.9,
        help="Share of each NUMA node's memory that stays free when memory is moved there: a node "
        "that is full makes the kernel swap or kill.",
    ),
    cfg.FloatOpt(
        "interval_s",
        default=1.0,
        min=0.1,
        max=60.0,
        mutable=True,
        help="Seconds between samples. One second is what the Virtual Platforms thesis (Tembey, "
        "Georgia Tech, 2013), from which the nine states come, measures with.",
    ),
    cfg.StrOpt(
        "state_directory",
        default="/var/lib/nova-vp",
        help="Folder for what outlives a restart: the mode, what `vp-agent calibrate` found, and "
        "the undisturbed profiles.",
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
    cfg.FloatOpt(
        "node_limit_misses_per_s",
        default=0.0,
        min=0.0,
        mutable=True,
        help="LLC misses per second, summed over all guests, from which on the memory controller "
        "of one NUMA node counts as hot. 0: what `vp-agent calibrate` found; where it never ran, "
        "no node is hot by this measure.",
    ),
    cfg.FloatOpt(
        "link_limit_misses_per_s",
        default=0.0,
        min=0.0,
        mutable=True,
        help="The same for the misses that one node's CPUs have served by another node. 0: what "
        "`vp-agent calibrate` found.",
    ),
    cfg.FloatOpt(
        "remote_penalty_ratio",
        default=0.0,
        min=0.0,
        mutable=True,
        help="How much longer another node's memory takes than the own node's, as a factor of 1 "
        "or more. 0: what `vp-agent calibrate` found; where it never ran, "
        f"{Limits().remote_penalty_ratio}.",
    ),
    cfg.StrOpt(
        "record_file",
        default="",
        help="File to which every tick's samples and decisions are appended as JSON lines, for "
        "`vp-sim replay`. Empty: nothing is recorded until `vp-agent record on` says so. It tells "
        "names and loads of all servers of this host: keep it as you keep its logs.",
    ),
    cfg.IntOpt(
        "record_max_mib",
        default=256,
        min=1,
        help="Size at which the recording is renamed to FILE.1, replacing an older one, and "
        "begun anew: it takes twice as much disk at most. A tick takes about 0.3 KiB per guest.",
    ),
    *metrics_opts(),
]


def register_opts(conf: cfg.ConfigOpts) -> None:
    conf.register_opts(AGENT_OPTS, group=AGENT)


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    return [(AGENT, AGENT_OPTS)]
