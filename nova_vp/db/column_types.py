# SPDX-License-Identifier: Apache-2.0
"""Moments on their way into columns and back: naive there and UTC, aware everywhere else.

Whole seconds, cut off: MariaDB's DATETIME has no others and rounds, which may be into the future,
and what is compared with a column must have lost as much as the column.
"""

from datetime import UTC, date, datetime, timedelta

DAY_MINUTES = 24 * 60


def naive_utc(moment: datetime) -> datetime:
    """As columns have it."""
    return moment.astimezone(UTC).replace(tzinfo=None, microsecond=0)


def aware_utc(moment: datetime) -> datetime:
    """Of what a column has."""
    return moment.replace(tzinfo=UTC)


def minute_of(moment: datetime) -> int:
    """Which one of its day. `moment`: as columns have it."""
    return 60 * moment.hour + moment.minute


def aware_at(day: date, minute: int) -> datetime:
    """When that minute of that day began."""
    return datetime(day.year, day.month, day.day, tzinfo=UTC) + timedelta(minutes=minute)


def storable(text: str) -> str:
    """JSON can say characters that databases refuse, and what can never be stored would be tried
    for ever, or keep what belongs to others waiting."""
    return text.encode("utf-8", "replace").decode().replace("\0", "?")
