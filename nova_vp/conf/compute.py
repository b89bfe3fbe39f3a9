# SPDX-License-Identifier: Apache-2.0
"""`[vp_compute]`: our monitor inside nova-compute, read from nova.conf."""

from oslo_config import cfg

GROUP = "vp_compute"

OPTS = [
    cfg.StrOpt(
        "run_directory",
        default="/run/nova-vp",
        help="[agent] run_directory of the agent on this host. nova-compute reads the "
        "measurements of the agent from it.",
    ),
    cfg.BoolOpt(
        "cpu_metrics",
        default=False,
        help="Also deliver the metrics of Nova's own monitor cpu.virt_driver. Set this if you "
        "used that monitor: nova-compute loads one monitor only.",
    ),
    cfg.BoolOpt(
        "supervise_agent",
        default=False,
        help="Start vp-agent as a child of nova-compute and restart it when it ends, for hosts "
        "that should have one service only. An agent that is already running is not touched. "
        "False, the default: systemd starts the agent.",
    ),
    cfg.StrOpt(
        "agent_command",
        default="vp-agent run",
        help="With supervise_agent: command line of the agent. --lifeline is appended, so that "
        "the agent ends with nova-compute. If nova-compute does not run as root, prefix the "
        "command that grants the privileges, for example `sudo -n`; it must pass on standard "
        "input.",
    ),
]


def register_opts(conf: cfg.ConfigOpts) -> None:
    conf.register_opts(OPTS, group=GROUP)


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    return [(GROUP, OPTS)]
