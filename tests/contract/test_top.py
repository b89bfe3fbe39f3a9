# SPDX-License-Identifier: Apache-2.0
"""`vp-agent top` alone on a host with real libvirt and guests, and counters written by hand."""

import json
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.domain_xml import nova_metadata
from tests.host_subjects import LibvirtSubject
from tests.terminal import ENDED, Terminal, missing_for_terminal
from tests.vpmu_file import VpmuFile
from vp_agent.drivers.base import ApplyFailed
from vp_agent.drivers.connection import Connection
from vp_agent.drivers.counters_fake import VcpuCounts

VP_AGENT = Path(sys.executable).with_name("vp-agent")
BUSY = VcpuCounts(
    instructions=10_000_000, cycles=20_000_000, llc_references=300_000, llc_misses_local=200_000
)
EVERY_S = 0.05


class Counting:
    """Two guests whose counters go on until closed."""

    def __init__(self, subject, folder):
        folder.mkdir()
        self.files = []
        for name in ("web", "batch"):
            uuid = subject.boot_xml(vcpus=1, cpuset="0-1", metadata=nova_metadata(name=name))
            domain = subject.domain(uuid).name()
            self.files.append(VpmuFile(folder / f"vm.{domain}", vcpus=1))
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self):
        while not self._stop.wait(EVERY_S):
            self.files[0].add(0, BUSY)

    def close(self):
        self._stop.set()
        self._thread.join()
        for file in self.files:
            file.die()


@pytest.fixture
def options(libvirt_host, tmp_path):
    """Of a host on which nothing of the project is but this."""
    file = tmp_path / "vp.conf"
    file.write_text(
        f"[agent]\nhost = here\nlibvirt_uri = {libvirt_host.uri}\n"
        f"counters = vpmu\nvpmu_directory = {tmp_path}/vpmu\n"
        f"state_directory = {tmp_path}/state\nrun_directory = {tmp_path}/run\n"
    )
    return [*libvirt_host.inside(), VP_AGENT, "--config-file", file, "top"]


@pytest.fixture
def counting(libvirt_subject: LibvirtSubject, tmp_path):
    guests = Counting(libvirt_subject, tmp_path / "vpmu")
    yield libvirt_subject
    guests.close()


def ran(*command, prefix=()):
    done = subprocess.run([*prefix, *command], capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout, " ".join(done.stderr.split())


def row_of(screen, name):
    return next(row for row in screen.splitlines() if row.startswith(name)).split()


@pytest.mark.skipif(missing_for_terminal() is not None, reason=str(missing_for_terminal()))
def test_a_terminal(counting, options, tmp_path):
    before = [one.XMLDesc() for one in counting.host.connect().listAllDomains()]
    with Terminal([*options, "--interval", "0.2"]) as terminal:
        screen = terminal.wait_for("8 bulldog")
        assert screen.startswith("here  read-only  counters vpmu")
        assert "no agent runs on this host: read-only view, nothing is changed" in screen
        web, batch = (row_of(screen, name) for name in ("web", "batch"))
        assert [web[1], *web[3:6]] == ["0-1", "8", "bulldog", "0.67"]
        assert batch[-1] == "idle"
        terminal.press("q")
        terminal.wait_for(f"{ENDED}: 0")
    assert [one.XMLDesc() for one in counting.host.connect().listAllDomains()] == before
    assert {path.name for path in tmp_path.iterdir()} <= {"vp.conf", "vpmu"}


def test_a_program(counting, options):
    rc, out, err = ran(*options, "--once", "-f", "json", "--interval", "0.2")
    assert rc == 0, err
    told = json.loads(out)
    assert (told["watched_by"], told["host"], told["counters"]["source"]) == (
        "vp-agent top",
        "here",
        "vpmu",
    )
    assert {vp["name"]: vp["state"] for vp in told["vps"]} == {"web": 8, "batch": None}


def test_without_counters(libvirt_host, options):
    rc, _, err = ran(*options, "--once")
    assert rc == 1
    assert "no software PMU" in err
    assert "use perf" in err


def test_a_user_that_may_not_read_where_guests_run(counting, options):
    counting.host.run_directory.chmod(0)
    may_not = ("setpriv", "--bounding-set", "-dac_override,-dac_read_search", "--inh-caps", "-all")
    try:
        at = options.index(VP_AGENT)
        rc, _, err = ran(*options[:at], *may_not, *options[at:], "--once")
    finally:
        counting.host.run_directory.chmod(0o755)
    assert rc == 1
    assert "run this as root, or with CAP_DAC_READ_SEARCH" in err


def test_a_connection_that_only_reads_cannot_change(libvirt_subject):
    uuid = libvirt_subject.boot()
    reader = Connection(libvirt_subject.host.uri, is_read_only=True)
    try:
        with pytest.raises(ApplyFailed, match="read only access"):
            reader.change(uuid, lambda domain: domain.pinVcpu(0, (True, False)))
    finally:
        reader.close()
