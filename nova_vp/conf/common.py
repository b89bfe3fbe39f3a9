# SPDX-License-Identifier: Apache-2.0
"""What several groups of options share: where `/metrics` and `/health` are served, and a limit.

The addresses are in each group, since agent and vp-scheduler may share a machine and a file.
"""

from oslo_config import cfg

LONGEST_S = 366 * 86400.0
"""More is never meant, and neither calendars nor locks take what is much more."""


def metrics_opts() -> list[cfg.Opt]:
    return [
        cfg.HostAddressOpt(
            "metrics_address",
            default="127.0.0.1",
            help="Address on which /metrics (Prometheus) and /health are served. They have no "
            "access control and contain names of servers and hosts. The default is therefore "
            "local; open the address to the monitoring network only.",
        ),
        cfg.PortOpt(
            "metrics_port",
            default=0,
            help="TCP port for /metrics and /health, for example 9779. 0, the default, serves "
            "neither, so no port is opened by accident.",
        ),
    ]
