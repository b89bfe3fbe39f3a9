# SPDX-License-Identifier: Apache-2.0
"""`vp-agent check` on a real libvirt: what is met is found to be met, until libvirtd is gone or
hangs."""

import os

from tests.freezing import frozen
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
        [caches] = host.caches(libvirt_subject.guests)
        assert f", {os.cpu_count()} CPUs" in caches.told
    finally:
        connection.close()


def test_a_libvirtd_that_is_gone(libvirt_subject: LibvirtSubject) -> None:
    libvirt_subject.host.stop_libvirtd()
    connection = Connection(libvirt_subject.host.uri)
    [found] = looked("libvirt", lambda: host.libvirt(connection))
    assert found.level is Level.FAILURE
    assert found.mend.startswith("check that libvirtd runs")


def test_a_libvirtd_that_hangs(libvirt_subject: LibvirtSubject) -> None:
    connection = Connection(libvirt_subject.host.uri, open_timeout_s=0.1)
    with frozen(libvirt_subject.host.libvirtd_pid()):
        [found] = looked("libvirt", lambda: host.libvirt(connection))
    assert (found.level, "it accepts connections and hangs" in found.told) == (Level.FAILURE, True)
    connection.close()
