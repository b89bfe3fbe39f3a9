# SPDX-License-Identifier: Apache-2.0
"""`[vp_compute]`: our monitor inside nova-compute, read from nova.conf."""

from oslo_config import cfg

GROUP = "vp_compute"

OPTS = [
    cfg.StrOpt(
        "run_directory",
        default="/run/nova-vp",
        help="The agent's [agent] run_directory, from which nova-compute reads what it measured.",
    ),
    cfg.BoolOpt(
        "cpu_metrics",
        default=False,
        help="Deliver the metrics of Nova's own monitor cpu.virt_driver as well: nova-compute "
        "loads one monitor only.",
    ),
    cfg.BoolOpt(
        "supervise_agent",
        default=False,
        help="Start vp-agent as a child of nova-compute and keep it running, for hosts that shall "
        "have one service. An agent that runs already is left alone. Off: systemd does it.",
    ),
    cfg.StrOpt(
        "agent_command",
        default="vp-agent run",
        help="With supervise_agent: the agent's command line, to which --lifeline is added, so "
        "that it ends with nova-compute. Where nova-compute is not root, begin it with what gives "
        "the agent its rights, such as `sudo -n`; it must pass on standard input.",
    ),
]


def register_opts(conf: cfg.ConfigOpts) -> None:
    conf.register_opts(OPTS, group=GROUP)


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    return [(GROUP, OPTS)]
