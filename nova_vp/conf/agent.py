# SPDX-License-Identifier: Apache-2.0
"""`[agent]`: what the agent of one host may do, and by which means."""

from oslo_config import cfg, types

from nova_vp.conf.common import LONGEST_S, metrics_opts
from nova_vp.core.types.policy import Mode
from nova_vp.core.types.topology import Limits

AGENT = "agent"

AGENT_OPTS = [
    cfg.StrOpt(
        "host",
        sample_default="<the machine's host name>",
        help="Name under which this host publishes. It must equal [DEFAULT] host of "
        "nova-compute, because the scheduler finds reports by that name. Unset: the host name of "
        "the machine.",
    ),
    cfg.StrOpt(
        "mode",
        sample_default="<unset>",
        choices=[
            (Mode.OBSERVE.value, "measure and report only"),
            (Mode.ADVISE.value, "propose actions, apply the ones that an operator accepts"),
            (Mode.ENFORCE.value, "apply actions"),
        ],
        help="Mode of this host at the first start of its agent. A mode that is set later, by the "
        "API or with `vp-agent mode`, is stored in state_directory and takes precedence over this "
        "option. The tightest of this mode, those of the host aggregates and that of the cloud "
        "holds. Unset: the host has no mode of its own; if none is set at all, `observe` holds.",
    ),
    cfg.StrOpt(
        "counters",
        default="auto",
        help="Counter source: a name from the entry points `vp_agent.counters` (perf, libvirt, "
        "vpmu), or `auto` for the best source that works on this host.",
    ),
    cfg.StrOpt(
        "actuator",
        default="kernel",
        help="How vCPUs are placed: a name from the entry points `vp_agent.actuators`. `kernel`, "
        "the default, leaves nothing in the domain XML, so a live migration carries nothing to "
        "another host. `libvirt` makes placements visible to virsh, and needs the migrate hook "
        "on every host.",
    ),
    cfg.StrOpt(
        "partition",
        default="auto",
        help="How the last-level cache and the memory bandwidth are partitioned: a name from the "
        "entry points `vp_agent.partition` (resctrl), `none`, or `auto` for what the CPU of this "
        "host and the privileges of the agent allow.",
    ),
    cfg.MultiStrOpt(
        "latency_sources",
        default=[],
        sample_default=[
            "server=11111111-2222-4333-8444-555555555555 driver=memcached address=10.0.0.5:11211"
        ],
        help="How the latency of latency-critical servers is measured where their applications do "
        "not report it; one line for each server: `server=UUID driver=NAME` and the settings of "
        "the driver as key=value, quoted as in a shell. Drivers are entry points "
        "`vp_agent.latency` (prometheus, memcached, http). A line counts while its server is on "
        "this host, so that all hosts may have the same lines. What the application of such a "
        "server reports is not used.",
    ),
    cfg.MultiStrOpt(
        "monitors",
        default=[],
        sample_default=["network-backlog limit_kib=128"],
        help="Monitors of overlays that run on this host; one line for each: its name and its "
        "settings as key=value, quoted as in a shell. Monitors are entry points "
        "`vp_agent.monitors` (cpu-waiting, network-backlog, request-classes, stream-classes). They "
        "watch servers of overlays on this host, and call for them as applications do. Empty, the "
        "default: applications alone call.",
    ),
    cfg.BoolOpt(
        "cpu_times",
        default=True,
        help="Read how long vCPUs wait for a CPU. Set it to false where the vCPUs are not run by "
        "the kernel as those of a real host are, as on a test host whose software PMU paces "
        "servers without modelled CPUs: CPU waiting is unknown then, and no server is found "
        "degraded by it.",
    ),
    cfg.StrOpt(
        "memory",
        default="pages",
        help="How the memory of servers is moved between NUMA nodes: a name from the entry "
        "points `vp_agent.memory`. `pages` asks the kernel to move it page by page, and needs "
        "CAP_SYS_PTRACE. `none` only reverts earlier moves. On a host with one NUMA node the "
        "option has no effect.",
    ),
    cfg.FloatOpt(
        "memory_reserve_ratio",
        default=0.05,
        min=0.0,
        max=0.9,
        help="Share of the memory of each NUMA node that stays free when memory is moved to the "
        "node. The default leaves room for the kernel: on a full node it swaps, or kills "
        "processes.",
    ),
    cfg.FloatOpt(
        "interval_s",
        default=1.0,
        min=0.1,
        max=60.0,
        mutable=True,
        help="Seconds between samples. The default is the interval of the Virtual Platforms "
        "thesis (Tembey, Georgia Tech, 2013), from which the nine states come.",
    ),
    cfg.ListOpt(
        "server_groups",
        item_type=types.String(
            choices=["affinity", "soft-affinity", "anti-affinity", "soft-anti-affinity"]
        ),
        default=["affinity", "soft-affinity"],
        help="Policies of Nova's server groups whose servers form one virtual platform (VP), if "
        "their flavors name no vp:group: they are placed and moved together, and none of them is "
        "a suspect for what it does to another. Only servers of one project form a VP. Empty: "
        "only vp:group counts. Server groups are known on hosts that vp-scheduler tells Nova's "
        "facts.",
    ),
    cfg.StrOpt(
        "state_directory",
        default="/var/lib/nova-vp",
        help="Directory for data that survives a restart: the mode, the result of `vp-agent "
        "calibrate`, the undisturbed profiles of servers, the balance of their pollution permits, "
        "and the usage that is billed.",
    ),
    cfg.FloatOpt(
        "usage_flush_s",
        default=10.0,
        min=0.1,
        max=LONGEST_S,
        help="Seconds between two writes of the usage of servers with a pollution permit to "
        "state_directory, if it changed. An agent that is killed loses the usage since its last "
        "write.",
    ),
    cfg.StrOpt(
        "run_directory",
        default="/run/nova-vp",
        help="Directory for the lock, the heartbeat and the control socket of the agent.",
    ),
    cfg.StrOpt(
        "libvirt_uri",
        default="qemu:///system",
        help="Connection URI of the local libvirt.",
    ),
    cfg.StrOpt(
        "vpmu_directory",
        default="/run/vpmu",
        help="Directory in which the software PMU of a test host keeps its counters.",
    ),
    cfg.FloatOpt(
        "node_limit_misses_per_s",
        default=0.0,
        min=0.0,
        mutable=True,
        help="LLC misses per second, summed over all servers, from which the memory controller "
        "of one NUMA node counts as hot. 0, the default, uses the result of `vp-agent "
        "calibrate`; without a calibration, hot memory controllers are not detected by this "
        "measure.",
    ),
    cfg.FloatOpt(
        "link_limit_misses_per_s",
        default=0.0,
        min=0.0,
        mutable=True,
        help="LLC misses per second that the CPUs of one NUMA node cause on another node, from "
        "which the link between the nodes counts as overloaded. 0, the default, uses the result "
        "of `vp-agent calibrate`.",
    ),
    cfg.FloatOpt(
        "remote_penalty_ratio",
        default=0.0,
        min=0.0,
        mutable=True,
        help="Latency of remote memory divided by the latency of local memory: 1 or more. 0, the "
        f"default, uses the result of `vp-agent calibrate`, and {Limits().remote_penalty_ratio} "
        "without a calibration.",
    ),
    cfg.StrOpt(
        "record_file",
        default="",
        help="File to which the samples and decisions of every tick are appended as JSON lines, "
        "for `vp-sim replay`. Empty, the default: nothing is recorded until `vp-agent record "
        "on`. The file contains names and loads of all servers of this host, so protect it like "
        "the logs.",
    ),
    cfg.IntOpt(
        "record_max_mib",
        default=256,
        min=1,
        help="Size in MiB at which the recording is renamed to FILE.1, which replaces an older "
        "one, and a new file is started. The recording takes at most twice this size. A tick "
        "takes about 0.3 KiB per server.",
    ),
    *metrics_opts(),
    cfg.StrOpt(
        "metrics_servers",
        default="all",
        choices=[
            ("all", "All servers on this host."),
            (
                "degraded",
                "Servers that a neighbour degrades, or degraded within the last ten minutes. What "
                "is billed is shown for all servers with a pollution permit.",
            ),
            ("none", "No servers: also what is billed is not shown."),
        ],
        mutable=True,
        help="Servers for which /metrics has series, about 17 for each. The series of the host "
        "are not affected. With `all`, 10 000 hosts with 20 servers each have 3.4 million series "
        "of servers.",
    ),
]


def register_opts(conf: cfg.ConfigOpts) -> None:
    conf.register_opts(AGENT_OPTS, group=AGENT)


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    return [(AGENT, AGENT_OPTS)]
