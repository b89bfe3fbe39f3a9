# SPDX-License-Identifier: Apache-2.0
"""`openstack vp latency report`: for scripts, and to try what an application would report."""

import argparse

from osc_lib.command import command

from vp_client import arguments
from vp_client.plugin import client_of


class ReportLatency(command.Command):
    """Report the latency and load of a latency-critical server of your project"""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        arguments.add_server(parser)
        parser.add_argument(
            "--latency-ms",
            type=float,
            required=True,
            metavar="<ms>",
            help="Latency of its requests since the last report, at the server's percentile",
        )
        parser.add_argument(
            "--load",
            type=float,
            metavar="<load>",
            help="Load in the unit of vp:max_load, such as requests per second",
        )
        parser.add_argument(
            "--percentile",
            type=float,
            metavar="<50-99.999>",
            help="Percentile of the latency; default: that of the server",
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        # Without a moment: the clock of who types it need not be right.
        told = client_of(self).report_latency(
            parsed_args.server,
            parsed_args.latency_ms,
            parsed_args.load,
            parsed_args.percentile,
        )
        self.app.stdout.write(
            f"{parsed_args.server}: {told['latency_ms']:g} ms sent to its host\n"
            "`openstack vp show` shows which reports the host used, and why it ignored others\n"
        )
