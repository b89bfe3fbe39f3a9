# SPDX-License-Identifier: Apache-2.0
"""What a server's flavor asks of controllers, before or after there is a guest."""

from typing import NamedTuple

from nova_vp.core.types.guest import Guest


class Asked(NamedTuple):
    keys: tuple[tuple[str, str], ...]
    """Keys that controllers declare, with valid values."""
    vcpus: int
    memory_kib: int


def asked_by(guest: Guest) -> Asked:
    return Asked(guest.controller_keys, guest.vcpus, guest.memory_kib)
