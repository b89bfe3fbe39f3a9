# SPDX-License-Identifier: Apache-2.0
"""What lists may be narrowed to: values only; `statements.py` has the conditions by their names."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any


@dataclass(frozen=True, slots=True)
class VpFilter:
    project_id: str | None = None
    host: str | None = None
    name: str | None = None
    state: int | None = None
    is_hurt: bool | None = None
    heard_since: datetime | None = None
    """What holds now is known only of hosts that were heard since."""


@dataclass(frozen=True, slots=True)
class HostFilter:
    mode: str | None = None
    heard_since: datetime | None = None
    not_heard_since: datetime | None = None


@dataclass(frozen=True, slots=True)
class Span:
    """From `begin` on and before `end`; None: without end."""

    begin: datetime | None = None
    end: datetime | None = None


@dataclass(frozen=True, slots=True)
class ActionFilter:
    span: Span = Span()
    host: str | None = None
    uuid: str | None = None
    """Done to it, or for it, or it made room."""
    project_id: str | None = None
    """Whose server it was done to."""
    result: str | None = None


@dataclass(frozen=True, slots=True)
class UsageFilter:
    span: Span = Span()
    """Of hours by when they begin."""
    project_id: str | None = None
    uuid: str | None = None


def given(wanted: Any) -> dict[str, Any]:
    """Of a filter, by name."""
    return {name: getattr(wanted, name) for name in wanted.__slots__}
