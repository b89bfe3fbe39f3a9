# SPDX-License-Identifier: Apache-2.0
"""Overlays, and how calls of them were answered, as text."""

from collections.abc import Iterable

from vp_client import formatters
from vp_client.formatters import Told


def target(told: Told) -> str:
    """Of an overlay: the number and its unit."""
    if told["target"] is None:
        return "none"
    return f"{formatters.number(told['target'])} {told['target_unit']}".rstrip()


def servers(told: Iterable[Told]) -> str:
    return formatters.lines(
        f"{formatters.server(one)}" + _host(one) + ("" if one["is_reported"] else ", not reported")
        for one in told
    )


def _host(one: Told) -> str:
    return f" on {one['host']}" if one.get("host") else ""


def holds(told: Told | None) -> str:
    if told is None:
        return formatters.UNKNOWN
    return formatters.lines(
        [
            f"{told['borrowed_cpus']} CPUs borrowed",
            f"boosted: {', '.join(told['boosted']) or 'none'}",
            f"credit: {formatters.percent(told['credit_ratio'])}",
            f"calls: {told['granted']} granted, {told['refused']} refused",
        ]
    )


def answers(told: Iterable[Told]) -> str:
    return formatters.lines(
        f"{', '.join(one['server_ids'])}: {one['nack'] or 'granted'}{_lease(one)}: {one['detail']}"
        for one in told
    )


def _lease(one: Told) -> str:
    return "" if one["lease_s"] is None else f" for {formatters.number(one['lease_s'])} s"
