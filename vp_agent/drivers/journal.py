# SPDX-License-Identifier: Apache-2.0
"""The undo journal: what stood there before us, in each guest's live libvirt metadata.

There it outlives the agent, ends with the guest and goes with it, so that whoever meets the guest
next can undo. Nova ignores foreign metadata and writes the XML anew at a hard reboot. We write the
live XML only; a migration copies it into the persistent one, so dropping looks there too.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import libvirt

from nova_vp.core.types.knob import Applied
from vp_agent.drivers.base import ApplyFailed, GuestGone
from vp_agent.drivers.domains import Domain, Domains, stored_journal
from vp_agent.drivers.journal_entry import NAMESPACE, PREFIX, format_entry

_ELEMENT = libvirt.VIR_DOMAIN_METADATA_ELEMENT


class LibvirtJournal:
    def __init__(self, domains: Domains) -> None:
        self._domains = domains
        self._seen: tuple[Domain, ...] = ()
        self._entries: Mapping[str, Applied] = MappingProxyType({})
        """Of those."""

    def read(self) -> Mapping[str, Applied]:
        known = tuple(self._domains.known())
        if known != self._seen:
            entries = {one.description.uuid: one.applied for one in known if one.applied}
            self._seen, self._entries = known, MappingProxyType(entries)
        return self._entries

    def write(self, applied: Applied) -> None:
        uuid, text = applied.guest_uuid, format_entry(applied)
        stored = self._domains.connection.change(uuid, lambda domain: _replace(domain, text))
        if stored is None or self._domains.note_journal(uuid, stored) != applied:
            raise ApplyFailed(
                f"the journal of server {uuid} reads back otherwise than it was written; nothing "
                "was changed"
            )

    def drop(self, guest_uuid: str) -> None:
        try:
            self._domains.connection.change(guest_uuid, _drop)
            self._domains.reread(guest_uuid)
        except GuestGone:
            return  # And its metadata with it.


def _set(domain: Any, text: str | None, where: int) -> None:
    domain.setMetadata(_ELEMENT, text, PREFIX, NAMESPACE, where)


def _replace(domain: Any, text: str) -> str | None:
    """What is stored then."""
    _set(domain, text, libvirt.VIR_DOMAIN_AFFECT_LIVE)
    return stored_journal(domain, libvirt.VIR_DOMAIN_AFFECT_LIVE)


def _drop(domain: Any) -> None:
    _set(domain, None, libvirt.VIR_DOMAIN_AFFECT_LIVE)
    if domain.isPersistent() and stored_journal(domain, libvirt.VIR_DOMAIN_AFFECT_CONFIG):
        _set(domain, None, libvirt.VIR_DOMAIN_AFFECT_CONFIG)
