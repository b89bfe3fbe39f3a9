# SPDX-License-Identifier: Apache-2.0
"""Servers that Nova has sent to a host and that its digest has not counted."""

from typing import NamedTuple

from nova_vp.core.types.service_level import ServiceClass


class Waiting(NamedTuple):
    """A server on its way to the host, which its digest does not know."""

    newcomer_class: int
    vcpus: int
    is_strict: bool = False
    is_sibling: bool = False
    """Of the newcomer's own VP: what they do to each other is nobody's interference."""
    llc_permit: float = 0.0
    """LLC misses per ms that it books."""
    service_class: ServiceClass | None = None
