# SPDX-License-Identifier: Apache-2.0
"""Guests that move between two private hosts, as Nova moves them."""

import libvirt

from tests.host_subjects import LibvirtSubject
from tests.libvirt_host import LibvirtHost


def migrate(source: LibvirtSubject, uuid: str, destination: LibvirtHost) -> None:
    domain = source.domain(uuid)
    xml = domain.XMLDesc(libvirt.VIR_DOMAIN_XML_MIGRATABLE)
    parameters = {
        libvirt.VIR_MIGRATE_PARAM_URI: destination.migration_uri.replace("tcp:", "tcp://"),
        libvirt.VIR_MIGRATE_PARAM_DEST_XML: xml,
        libvirt.VIR_MIGRATE_PARAM_PERSIST_XML: xml,
    }
    flags = (
        libvirt.VIR_MIGRATE_LIVE
        | libvirt.VIR_MIGRATE_PERSIST_DEST
        | libvirt.VIR_MIGRATE_UNDEFINE_SOURCE
    )
    domain.migrate3(destination.connect(), parameters, flags)


def arrived(destination: LibvirtHost, uuid: str, name: str = "kernel") -> LibvirtSubject:
    """The destination with an agent; the subject knows the guest that it did not boot."""
    subject = LibvirtSubject(destination, name)
    subject.adopt(uuid)
    return subject


def xml_of(destination: LibvirtHost, uuid: str, flags: int = 0) -> str:
    return str(destination.connect().lookupByUUIDString(uuid).XMLDesc(flags))
