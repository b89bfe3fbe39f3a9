# SPDX-License-Identifier: Apache-2.0
"""Arguments that several commands take: a server, how many rows, in which order, of which time."""

import argparse
import re
from datetime import UTC, datetime, timedelta
from typing import Any

from nova_vp import timestamps
from nova_vp.core.types.policy import Mode
from vp_client.client import Client
from vp_client.errors import VpError

MODES = tuple(mode.value for mode in Mode)
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def add_server(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("server", metavar="<server>", help="Server (name or id)")


def add_page(parser: argparse.ArgumentParser, *sort_keys: str) -> None:
    add_limit(parser)
    parser.add_argument(
        "--marker", metavar="<id>", help="Only rows after this one: id of the last row seen before"
    )
    if sort_keys:
        parser.add_argument(
            "--sort",
            metavar="<key>[:asc|desc]",
            type=_sort(sort_keys),
            help=f"Sort key, ascending by default; one of: {', '.join(sort_keys)}",
        )


def add_project(parser: argparse.ArgumentParser, help: str) -> None:
    parser.add_argument("--project", metavar="<project>", help=help)
    parser.add_argument(
        "--project-domain",
        metavar="<project-domain>",
        help="Domain of the project, by name or id, if projects of several domains have its name",
    )


def project_of(client: Client, parsed_args: argparse.Namespace) -> str | None:
    """Raises VpError."""
    project, domain = parsed_args.project, parsed_args.project_domain
    if domain and not project:
        raise VpError("Give --project with --project-domain.")
    return client.project_id(project, domain) if project else None


def add_limit(parser: argparse.ArgumentParser) -> None:
    """Of rows that no id names: by --begin the caller says where they begin."""
    parser.add_argument("--limit", type=_rows, metavar="<n>", help="Maximum number of rows")


def add_span(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--last",
        type=_span,
        metavar="<span>",
        help="Only the last period: 90s, 30m, 12h, 7d",
    )
    parser.add_argument(
        "--begin",
        type=_moment,
        metavar="<time>",
        help="Only from this time on (UTC): 2026-01-02T03:04:05Z",
    )
    parser.add_argument(
        "--end", type=_moment, metavar="<time>", help="Only until this time (UTC); default: now"
    )


def add_hours(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--start",
        type=_moment,
        metavar="<time>",
        help="Only hours that begin at this time or later (UTC): 2026-01-02T03:00:00Z",
    )
    parser.add_argument(
        "--end", type=_moment, metavar="<time>", help="Only hours that begin before this time (UTC)"
    )


def span_of(parsed_args: argparse.Namespace) -> dict[str, Any]:
    """Raises VpError."""
    begin, end = parsed_args.begin, parsed_args.end
    if parsed_args.last:
        if begin:
            raise VpError("Give --last or --begin, not both.")
        until = timestamps.read(end) if end else datetime.now(UTC)
        try:
            begin = timestamps.write(until - parsed_args.last)
        except OverflowError as exc:
            raise VpError("--last is too large; give a shorter period, such as 30d.") from exc
    return {"begin": begin, "end": end}


def _moment(text: str) -> str:
    """As the API takes it: a day, a minute or a second, UTC."""
    for form in (timestamps.FORMAT, "%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M", "%Y-%m-%d"):
        try:
            return timestamps.write(datetime.strptime(text, form).replace(tzinfo=UTC))
        except ValueError:
            continue
    raise argparse.ArgumentTypeError(
        f"{text!r} is not a time; give a time such as 2026-01-02T03:04:05Z (UTC)"
    )


def _span(text: str) -> timedelta:
    found = re.fullmatch(r"(\d{1,6})([smhd])", text)
    if not found:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a period; give a period such as 90s, 30m, 12h or 7d"
        )
    return timedelta(seconds=int(found[1]) * _SECONDS[found[2]])


def _rows(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of rows; give 1 or more")
    return int(text)


def _sort(keys: tuple[str, ...]) -> Any:
    def parse(text: str) -> str:
        key, _, way = text.partition(":")
        if key not in keys or way not in ("", "asc", "desc"):
            raise argparse.ArgumentTypeError(
                f"{text!r} is not a sort key; give one of {', '.join(keys)}, then :asc or :desc"
            )
        return f"{key}:{way or 'asc'}"

    return parse
