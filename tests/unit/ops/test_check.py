# SPDX-License-Identifier: Apache-2.0
"""What `vp-agent check` finds: each requirement met and unmet, and all of them in one go."""

import json
import os
import subprocess
import sys
from importlib import resources
from pathlib import Path
from types import SimpleNamespace

import pytest
from oslo_config import cfg

from nova_vp import conf as options
from nova_vp.conf.islands import read_islands
from nova_vp.core.types.guest import Unmanaged
from nova_vp.core.types.topology import LlcDomain, Topology
from nova_vp.signing.keyring import new_private_key, private_text
from tests.policies import a_policy
from vp_agent.checks import host, prerequisites, settings
from vp_agent.checks.finding import Finding, Level, looked
from vp_agent.cli import check
from vp_agent.drivers.base import CountersUnavailable, HostUnavailable
from vp_agent.drivers.capabilities import (
    CAP_DAC_OVERRIDE,
    CAP_NET_RAW,
    CAP_SYS_NICE,
    CAP_SYS_PTRACE,
)
from vp_agent.drivers.counters import OpenedCounters
from vp_agent.drivers.counters_fake import FakeCounters
from vp_agent.drivers.fake import FakeGuests, FakeHost
from vp_agent.loop.control_socket import RunFolder

OK, WARNING, FAILURE = Level.OK, Level.WARNING, Level.FAILURE
HOOK = (resources.files("vp_agent") / "hooks/qemu.d/nova-vp").read_bytes()
EVERYTHING = {CAP_SYS_NICE, CAP_DAC_OVERRIDE, CAP_SYS_PTRACE}


def levels(found):
    return [one.level for one in found]


@pytest.fixture
def configured(tmp_path):
    """A configuration from the text of a file."""

    def read(text: str = "") -> cfg.ConfigOpts:
        file = tmp_path / "nova-vp.conf"
        file.write_text(text)
        conf = cfg.ConfigOpts()
        options.register_all(conf)
        conf(["--config-file", str(file)], default_config_dirs=[])
        return conf

    return read


# Configuration


def test_all_faults_of_the_files_are_named_at_once(configured):
    conf = configured(
        "[agent]\nintervl_s = 2\ninterval_s = soup\n[policy]\nmoves_per_minute = many\nzzz = 1\n"
        "[someone]\nelse = 1\n"
    )
    found = list(settings.configuration(conf))
    assert levels(found) == [FAILURE, FAILURE, WARNING, WARNING]
    assert [one.told.split(":")[0] for one in found[:2]] == [
        "[agent] interval_s",
        "[policy] moves_per_minute",
    ]
    assert [one.mend for one in found[2:]] == [
        "write interval_s",
        "remove the line; nothing reads it",
    ]


def test_a_former_name_that_is_still_read_is_told_with_the_present_one(configured):
    renamed = [
        (g, one) for g, listed in options.list_opts() for one in listed if one.deprecated_opts
    ]
    group, option = renamed[0]
    [former] = option.deprecated_opts
    conf = configured(f"[{former.group}]\n{former.name} = {option.default}\n")
    [found] = settings.configuration(conf)
    assert (found.level, found.mend) == (WARNING, f"write it as [{group}] {option.dest}")
    assert "still read" in found.told


def test_a_configuration_without_fault(configured):
    assert levels(settings.configuration(configured("[agent]\nmode = advise\n"))) == [OK]


@pytest.mark.parametrize(
    ("ours", "novas", "level"),
    [
        ("one", "[DEFAULT]\nhost = one\n", OK),
        ("one", "[DEFAULT]\nhost = other\n", FAILURE),
        ("one", None, OK),
        ("a b", None, FAILURE),
        ("one", "no ini", OK),
    ],
)
def test_the_name_must_be_nova_computes(configured, tmp_path, ours, novas, level):
    if novas is not None:
        (tmp_path / "nova.conf").write_text(novas)
    [found] = settings.host_name(configured(f"[agent]\nhost = {ours}\n"), tmp_path)
    assert found.level is level
    if novas and level is FAILURE:
        assert found.mend == "set [agent] host = other"


@pytest.mark.parametrize(
    ("nova", "level"),
    [
        (None, OK),
        ("[compute]\ncpu_shared_set = 0-3\n", OK),
        ("[compute]\ncpu_shared_set = 0,1\n", WARNING),
        ("[DEFAULT]\nvcpu_pin_set = 2,^3\n", WARNING),
        ("[compute]\ncpu_shared_set = 90\n", WARNING),
        ("[compute]\ncpu_shared_set = many\n", WARNING),
    ],
)
def test_novas_cpus_must_reach_several_caches(tmp_path, nova, level):
    if nova:
        (tmp_path / "nova.conf").write_text(nova)
    pairs = tuple(LlcDomain(n, 0, frozenset({2 * n, 2 * n + 1})) for n in range(2))
    assert levels(settings.novas_cpus(tmp_path, Topology(pairs))) == [level]


# The host


@pytest.fixture
def guests():
    made = FakeHost()
    made.boot(vcpus=2)
    return FakeGuests(made)


def test_servers_are_counted_with_those_left_alone(guests):
    fake = FakeHost()
    fake.boot(vcpus=1)
    fake.boot(vcpus=1, unmanaged=Unmanaged.DEDICATED_CPUS)
    fake.boot(vcpus=1, unmanaged=Unmanaged.INVALID_SPEC)
    found = list(host.servers(FakeGuests(fake)))
    assert levels(found) == [OK, WARNING]
    assert "3 running" in found[0].told
    assert "1 dedicated-cpus" in found[0].told


def topologies(domains: int, nodes: int) -> FakeGuests:
    made = tuple(LlcDomain(n, n % nodes, frozenset({n})) for n in range(domains))
    return FakeGuests(FakeHost(topology=Topology(made)))


@pytest.mark.parametrize(
    ("domains", "nodes", "balancing", "expected"),
    [
        (4, 1, "1", [OK]),
        (1, 1, "1", [WARNING]),
        (4, 2, "1", [OK, WARNING]),
        (4, 2, "0", [OK]),
        (4, 2, None, [OK]),
    ],
)
def test_caches_and_who_moves_memory(tmp_path, domains, nodes, balancing, expected):
    switch = tmp_path / "numa_balancing"
    if balancing:
        switch.write_text(f"{balancing}\n")
    assert levels(host.caches(topologies(domains, nodes), switch)) == expected


@pytest.mark.parametrize(
    ("islands", "cap", "controllers", "expected"),
    [
        ("", None, [], [OK]),
        ("a: 0-1; b: 2-3", None, [], [OK]),
        ("a: 0-1; b: 2-5", None, [], [OK, FAILURE]),
        ("a: 0-1 exclusive; b: 2-3", None, [], [OK, WARNING]),
        ("", 3.0, [], [OK, WARNING]),
    ],
)
def test_islands_have_cpus_of_the_host_and_who_looks_after_them(
    islands, cap, controllers, expected
):
    policy = a_policy(controllers, islands=read_islands(islands), host_cap_cores=cap)
    found = list(host.islands(topologies(4, 1), policy))
    assert levels(found) == expected
    assert all(one.mend for one in found[1:])


@pytest.mark.parametrize(
    ("content", "mode", "is_needed", "level"),
    [
        (HOOK, 0o755, True, OK),
        (HOOK, 0o644, False, FAILURE),
        (HOOK + b"#", 0o755, False, WARNING),
        (None, 0, False, WARNING),
        (None, 0, True, FAILURE),
    ],
)
def test_the_migrate_hook(tmp_path, content, mode, is_needed, level):
    installed = tmp_path / "nova-vp"
    if content is not None:
        installed.write_bytes(content)
        installed.chmod(mode)
    [found] = host.migrate_hook(is_needed=is_needed, installed=installed)
    assert found.level is level
    assert bool(found.mend) is (level is not OK)


def test_without_systemd_somebody_else_must_look_after_a_hung_agent(tmp_path):
    [found] = host.release_timer(tmp_path / "none")
    assert found.level is WARNING
    assert "vp-agent release --expired" in found.mend


@pytest.mark.parametrize(("state", "level"), [(0, OK), (1, OK), (4, OK), (5, WARNING)])
def test_a_clock_that_is_not_synchronised_is_told(monkeypatch, state, level):
    """By what adjtimex returns: 1 to 4 are leap seconds, 5 is TIME_ERROR."""
    kernel = SimpleNamespace(adjtimex=lambda told: state)
    monkeypatch.setattr(host.ctypes, "CDLL", lambda name: kernel)
    assert levels(host.clock()) == [level]


def test_the_clock_is_asked_of_the_kernel():
    assert levels(host.clock()) in ([OK], [WARNING])


# By which means


def opened(name="vpmu", passed_over=()):
    driver = FakeCounters()
    driver.name = name
    return lambda: OpenedCounters(driver, passed_over)


def test_the_counter_source_and_what_better_ones_lack(guests):
    found = list(prerequisites.counters(opened(passed_over=("perf: no PMU. Buy one",)), guests))
    assert [(one.level, one.told) for one in found] == [
        (OK, "vpmu"),
        (OK, "not used: perf: no PMU. Buy one"),
    ]


@pytest.mark.parametrize(
    ("lines", "told", "mend"),
    [
        (
            ["vpmu: no folder. Not here", "perf: no PMU. Buy one", "libvirt: no PMU. Buy one"],
            "perf, libvirt: no PMU; vpmu: no folder",
            "Buy one",
        ),
        (["vpmu: none"], "vpmu: none", "see [agent] counters"),
    ],
)
def test_sources_that_cannot_work_are_one_failure_that_says_why(guests, lines, told, mend):
    def none():
        raise CountersUnavailable("\n".join(["no counter source works:", *lines]))

    found = list(prerequisites.counters(none, guests))
    assert found == [Finding("counters", FAILURE, told, mend)]


def test_descriptors_for_every_vcpu():
    crowd = FakeHost()
    for _ in range(3):
        crowd.boot(vcpus=1_000_000)
    assert levels(prerequisites.counters(opened("perf"), FakeGuests(crowd))) == [OK, WARNING]


@pytest.mark.parametrize(
    ("held", "helpers", "expected"),
    [
        (EVERYTHING, {}, [OK, OK]),
        ({CAP_SYS_NICE}, {}, [OK, FAILURE]),
        (set(), {CAP_SYS_NICE: "sudo x"}, [OK, FAILURE]),
    ],
)
def test_the_rights_to_place_and_to_cap(configured, held, helpers, expected):
    assert levels(prerequisites.rights(configured(), helpers, held.__contains__)) == expected


@pytest.mark.parametrize(
    ("lines", "held", "expected"),
    [
        ("", set(), []),
        ("monitors = network-backlog\n", {CAP_NET_RAW}, [OK]),
        ("monitors = network-backlog\n", EVERYTHING, [FAILURE]),
        ("monitors = soup\n", set(), []),
    ],
)
def test_the_right_of_monitors_that_look_at_packets(configured, lines, held, expected):
    conf = configured(f"[agent]\n{lines}")
    assert levels(prerequisites.monitors(conf, held.__contains__)) == expected


def test_an_actuator_that_needs_no_rights(configured):
    conf = configured("[agent]\nactuator = libvirt\n")
    assert levels(prerequisites.rights(conf, {}, set().__contains__)) == [OK]


@pytest.mark.parametrize(
    ("nodes", "memory", "held", "helper", "level"),
    [
        (1, "pages", set(), "", OK),
        (2, "none", set(), "", OK),
        (2, "pages", EVERYTHING, "", OK),
        (2, "pages", set(), "sudo x", OK),
        (2, "pages", set(), "", WARNING),
    ],
)
def test_the_right_to_move_memory(configured, nodes, memory, held, helper, level):
    conf = configured(f"[agent]\nmemory = {memory}\n")
    assert levels(prerequisites.memory(conf, nodes, helper, held.__contains__)) == [level]


@pytest.mark.parametrize(
    ("why_not", "flags", "level"),
    [
        ("", "cat_l3", OK),
        ("resctrl: not mounted. Mount it", "cat_l3", WARNING),
        ("resctrl: not mounted. Mount it", "sse", OK),
    ],
)
def test_a_cache_is_divided_where_the_cpu_can(tmp_path, why_not, flags, level):
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text(f"flags : fpu {flags} vme\n")
    assert levels(prerequisites.partition(why_not, cpuinfo)) == [level]


def test_folders_that_can_be_made_and_one_that_cannot(configured, tmp_path):
    (tmp_path / "file").write_text("")
    conf = configured(
        f"[agent]\nstate_directory = {tmp_path}/a/b\nrun_directory = {tmp_path}/file/b\n"
    )
    found = list(prerequisites.folders(conf))
    assert levels(found) == [OK, FAILURE]
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize(
    ("trusted", "told"),
    [(None, "no public keys in"), ("", "no public keys in"), ("vp-api/ctl1 x\n", "line 1: 'x'")],
)
def test_keys_that_cannot_be_used_are_told_with_their_mend(configured, tmp_path, trusted, told):
    conf = configured(f"[bus]\nkeys_directory = {tmp_path}\n")
    key = tmp_path / "vp-agent.pem"
    key.write_bytes(private_text(new_private_key()))
    key.chmod(0o600)
    if trusted is not None:
        (tmp_path / "trusted").write_text(trusted)
    [found] = prerequisites.keys(conf)
    assert found.level is WARNING
    assert told in found.told
    assert found.told.count("(") == found.told.count(")")
    assert found.mend.startswith("write what `vp-manage credentials trusted` prints there;")


def test_an_agent_that_runs_hangs_or_does_not(tmp_path):
    folder = RunFolder(str(tmp_path / "run"))
    assert levels(prerequisites.running_agent(folder)) == [OK]
    with folder.locked():
        folder.beat()
        [found] = prerequisites.running_agent(folder)
        assert found.told == "running"
        (tmp_path / "run/agent.alive").write_text("1.000000\n")
        [found] = prerequisites.running_agent(folder)
        assert found.level is FAILURE


# All in one go


def test_a_look_that_fails_keeps_no_other_from_being_taken():
    def unavailable():
        raise HostUnavailable("libvirt does not answer (why: so): start it")

    def unreadable():
        yield Finding("x", OK, "one thing")
        raise PermissionError(13, "no")

    def misconfigured():
        raise cfg.Error("[agent] x = y")

    assert list(looked("libvirt", unavailable)) == [
        Finding("libvirt", FAILURE, "libvirt does not answer (why: so)", "start it")
    ]
    assert levels(looked("x", unreadable)) == [OK, FAILURE]
    assert levels(looked("x", misconfigured)) == [FAILURE]


def test_the_table_fits_and_tells_the_worst_first():
    long = Finding("counters", FAILURE, "word " * 40, "mend " * 40)
    lines = check.as_table([Finding("a", OK, "fine"), long]).splitlines()
    assert max(map(len, lines)) <= 100
    assert lines[0].startswith("failure  counters")
    assert lines[-2] == "ok       a                fine"
    assert lines[-1].startswith("failures: 1, warnings: 0; checked as user ")


def test_a_host_that_lacks_everything_is_told_all_of_it(tmp_path: Path):
    """The command as installed: one run, every requirement, and a status for scripts."""
    file = tmp_path / "nova-vp.conf"
    file.write_text(
        f"[agent]\nhost = a b\nintervl_s = 1\ncounters = nosuch\n"
        f"libvirt_uri = qemu+unix:///system?socket={tmp_path}/none\n"
        f"state_directory = {tmp_path}/state\nrun_directory = {tmp_path}/run\n"
        "[policy]\nmoves_per_minute = many\n[bus]\ntransport_url = rabbit://u:s3cret@127.0.0.1:9/\n"
    )
    command = [Path(sys.executable).with_name("vp-agent"), "--config-file", file, "check"]
    quiet = os.environ | {"PYTHONWARNINGS": "ignore"}  # Of libraries that meet eventlet.
    done = subprocess.run(
        [*command, "-f", "json"], capture_output=True, text=True, timeout=60, env=quiet
    )
    assert (done.returncode, done.stderr) == (2, "")
    told = json.loads(done.stdout)
    unmet = {one["name"] for one in told["checks"] if one["level"] != "ok"}
    assert unmet >= {"configuration", "host name", "counters", "libvirt", "bus", "calibration"}
    assert all(one["mend"] for one in told["checks"] if one["level"] != "ok")
    assert "s3cret" not in done.stdout
    assert not (tmp_path / "state").exists()
