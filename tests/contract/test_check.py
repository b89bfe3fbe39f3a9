# SPDX-License-Identifier: Apache-2.0
"""`vp-agent check` on a real libvirt: what is met is found to be met, until libvirtd is gone."""

from tests.host_subjects import LibvirtSubject
from vp_agent.checks import host
from vp_agent.checks.finding import Level, looked
from vp_agent.drivers.connection import Connection


def test_libvirt_its_servers_and_caches(libvirt_subject: LibvirtSubject) -> None:
    libvirt_subject.boot()
    connection = Connection(libvirt_subject.host.uri)
    try:
        [found] = host.libvirt(connection)
        assert (found.level, found.told.split()[0].count(".")) == (Level.OK, 2)
        [servers] = host.servers(libvirt_subject.guests)
        assert servers.told.startswith("1 running")
        assert next(iter(host.caches(libvirt_subject.guests))).name == "caches"
    finally:
        connection.close()


def test_a_libvirtd_that_is_gone(libvirt_subject: LibvirtSubject) -> None:
    libvirt_subject.host.stop_libvirtd()
    connection = Connection(libvirt_subject.host.uri)
    [found] = looked("libvirt", lambda: host.libvirt(connection))
    assert found.level is Level.FAILURE
    assert found.mend.startswith("check that libvirtd runs")
