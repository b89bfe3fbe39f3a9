# SPDX-License-Identifier: Apache-2.0
"""Which of two messages of a host is the newer, so that a restarted agent is heard at once."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class MessageVersion:
    """Which of two messages of one host is the newer."""

    epoch: int
    sequence: int

    def is_newer_than(self, other: "MessageVersion | None") -> bool:
        if other is None:
            return True
        return (self.epoch, self.sequence) > (other.epoch, other.sequence)


def version_of(message: Mapping[str, Any]) -> MessageVersion:
    return MessageVersion(message["epoch"], message["seq"])
