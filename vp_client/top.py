# SPDX-License-Identifier: Apache-2.0
"""`openstack vp top`: the caller's servers live, whom a neighbour hurts first.

Agents report what changes at once and all else about once a minute; a cloud of many servers shows
those that matter most. The screen is `nova_vp/cli/screen.py`'s, which `vp-agent top` shares.
"""

import argparse
import time
from datetime import UTC, datetime
from typing import Any

from keystoneauth1.exceptions import ClientException
from osc_lib.command import command

from nova_vp import timestamps
from nova_vp.cli import live_view
from nova_vp.cli.live_view import Column, Row, View
from vp_client import degradation_formatters, formatters
from vp_client.client import Client
from vp_client.errors import VpError
from vp_client.plugin import client_of

Told = dict[str, Any]
ROWS = 200
"""More do not fit on any screen."""
DEFAULT_INTERVAL_S, MIN_INTERVAL_S, MAX_INTERVAL_S = 5.0, 1.0, 3600.0
SERVER, HOST = Column("SERVER", 22), Column("HOST", 14)
COLUMNS = (
    Column("STATE", 21),
    Column("FOR", 7, is_number=True),
    Column("DEGRADED", 12),
    Column("ISOLATION", 9),
    Column("NOTE", 12),
)


class Top(command.Command):
    """Show servers live: state, duration, and whether a neighbour degrades them; q quits"""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "--host", metavar="<host>", help="Only servers on this host (operators)"
        )
        parser.add_argument("--once", action="store_true", help="Print one table and exit")
        parser.add_argument(
            "--interval",
            type=live_view.interval_s(MIN_INTERVAL_S, MAX_INTERVAL_S),
            default=DEFAULT_INTERVAL_S,
            metavar="<seconds>",
            help=f"Seconds between updates, {MIN_INTERVAL_S:g} to {MAX_INTERVAL_S:g}, "
            f"default: {DEFAULT_INTERVAL_S:g}",
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        from nova_vp.cli import screen  # rich is for this command alone

        client, host = client_of(self), parsed_args.host
        if parsed_args.once:
            screen.print_once(view(look(client, host)))
            return
        # Keystone's too: a live view outlasts tokens, and there may be no other for a while.
        failures = (VpError, ClientException)
        again = live_view.kept(lambda: look(client, host), view, failures)
        screen.watch(again, parsed_args.interval)


def look(client: Client, host: str | None) -> list[Told]:
    """The hurt first, who loses most before the others, then whose state changed last."""
    hurt = client.list_vps(host, ROWS, hurt_by_neighbour=True, sort="degradation:desc")
    rest = client.list_vps(host, ROWS, sort="since:desc")
    known = {vp["server_id"] for vp in hurt}
    if host and not rest:
        client.show_host(host)  # An unknown host is an error, an empty one is not.
    return hurt + [vp for vp in rest if vp["server_id"] not in known]


def view(vps: list[Told], gone: str = "") -> View:
    """`gone`: why there is nothing newer."""
    has_hosts = any("host" in vp for vp in vps)
    now = datetime.now(UTC)
    hurt = sum(bool(vp["hurt_by_neighbour"]) for vp in vps)
    more = f"{ROWS} or more" if len(vps) >= ROWS else str(len(vps))
    return View(
        title=f"{more} servers, {hurt} degraded by a neighbour  {time.strftime('%H:%M:%S')}",
        columns=(SERVER, *([HOST] if has_hosts else []), *COLUMNS),
        rows=tuple(_row(vp, has_hosts, now) for vp in vps),
        problems=(f"showing the last answer: {gone}",) if gone else (),
        empty="no vp-agent has reported a server of yours",
    )


def _row(vp: Told, has_hosts: bool, now: datetime) -> Row:
    hurt = vp["hurt_by_neighbour"]
    cells = (
        vp["name"] or vp["server_id"],
        *([vp["host"]] if has_hosts else []),
        "unknown" if vp["state"] is None else formatters.state(vp["state"]),
        _for(vp["since"], now),
        degradation_formatters.listed(vp),
        vp["isolation"],
        "stale" if vp["is_stale"] else vp.get("incomplete") or "",
    )
    return Row(cells, is_alarming=bool(hurt))


def _for(since: str | None, now: datetime) -> str:
    if since is None:
        return "-"
    return formatters.age(max(int((now - timestamps.read(since)).total_seconds()), 0))
