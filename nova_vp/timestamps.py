# SPDX-License-Identifier: Apache-2.0
"""Moments as the API says them and takes them: ISO 8601, UTC, whole seconds."""

from datetime import UTC, datetime

FORMAT = "%Y-%m-%dT%H:%M:%SZ"


def read(text: str) -> datetime:
    """Aware. Raises ValueError."""
    return datetime.strptime(text, FORMAT).replace(tzinfo=UTC)


def write(moment: datetime) -> str:
    """`moment`: aware."""
    return moment.astimezone(UTC).strftime(FORMAT)
