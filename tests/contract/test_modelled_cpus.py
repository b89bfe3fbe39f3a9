# SPDX-License-Identifier: Apache-2.0
"""Modelled CPUs under real guests and a real libvirtd: what is shared out, and what everybody sees.

The machine has fewer CPUs than the host shows. Pins are honoured all the same, by the model; the
kernel's files, libvirt and `taskset` tell of the model alone to whoever runs under the lab's shim.
"""

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from testbed.lab import settings
from testbed.lab.lag_meter import MAX_RATIO
from tests.bench.modelled_cpus import CELLS, CPUS, NEUTRAL, PERIOD_US, Row, Trial
from tests.bench.paced_guests import SHIM, PacedHost
from tests.libvirt_host import missing_for_libvirt
from tests.waiting import wait_until

NAMES = ("one", "two")
TOLERANCE = 0.05
SECOND_NS = 1_000_000_000


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PacedHost]:
    missing = missing_for_libvirt()
    if missing:
        pytest.skip(missing)
    host = PacedHost(tmp_path_factory.mktemp("modelled"), CELLS, {}, modelled_cpus=CPUS)
    try:
        host.start(dict.fromkeys(NAMES, "compute"))
        yield host
    finally:
        host.stop()


@pytest.fixture
def trial(host: PacedHost) -> Trial:
    """Each alone on a CPU, without quotas."""
    trial = Trial(host)
    for name, cpu in zip(NAMES, ("6", "7"), strict=True):
        trial.tune(name)
        trial.taskset(name, cpu)
    return trial


def measured(trial: Trial, *names: str, is_solo: bool = False) -> list[Row]:
    rows = trial.measure("", *names, is_solo=is_solo)
    debt_ratio = max(row.debt_ratio for row in rows)
    if debt_ratio > MAX_RATIO:
        pytest.skip(f"the machine is too busy: debt of {debt_ratio:.0%} of the time")
    return rows


def near(ratio: float) -> object:
    return pytest.approx(ratio, abs=TOLERANCE)


def test_a_crowded_cpu_gives_each_half_and_shows_run_delay(trial: Trial) -> None:
    measured(trial, *NAMES, is_solo=True)
    trial.taskset("two", "6")
    for row in measured(trial, *NAMES):
        assert row.of_solo_ratio == near(0.5)
        assert (row.granted_ratio, row.run_delay_ratio) == (near(0.5), near(0.5))
        assert row.throttled_ratio == 0
    trial.vcpupin("two", 7)
    for row in measured(trial, *NAMES):
        assert (row.of_solo_ratio, row.run_delay_ratio) == (near(1.0), near(0.0))


def test_weights_share_a_crowded_cpu(trial: Trial) -> None:
    trial.taskset("two", "6")
    trial.tune("one", cpu_shares=3 * NEUTRAL["cpu_shares"])
    heavy, light = measured(trial, *NAMES)
    assert (heavy.granted_ratio, light.granted_ratio) == (near(0.75), near(0.25))


@pytest.mark.parametrize("level", ["vcpu", "global"])
def test_a_quota_shows_throttled_time_and_no_waiting(trial: Trial, level: str) -> None:
    trial.tune("one", **{f"{level}_quota": 30_000, f"{level}_period": PERIOD_US})
    capped, other = measured(trial, *NAMES)
    assert (capped.granted_ratio, capped.throttled_ratio) == (near(0.3), near(0.7))
    assert capped.run_delay_ratio == near(0.0)
    assert other.granted_ratio == near(1.0)


def test_the_kernels_files_and_libvirt_tell_what_the_model_granted(
    trial: Trial, host: PacedHost
) -> None:
    trial.tune("one", vcpu_quota=30_000, vcpu_period=PERIOD_US)
    trial.taskset("two", "6")
    trial.run(*NAMES)
    guest = host.guests["one"]
    pid, tid = host.libvirt.pid_of(guest.domain), guest.tids[0]
    wait_until(lambda: schedstat(host, pid, tid)[0] > 0, "one has had CPU time")
    before, stat_before, at = schedstat(host, pid, tid), cpu_stat(host, pid), time.monotonic_ns()
    wait_until(
        lambda: schedstat(host, pid, tid)[0] - before[0] > SECOND_NS, "one has had another second"
    )
    after, stat_after = schedstat(host, pid, tid), cpu_stat(host, pid)
    wall_ns = time.monotonic_ns() - at
    granted_ns, delay_ns = after[0] - before[0], after[1] - before[1]
    throttled_ns = stat_after["throttled_time"] - stat_before["throttled_time"]
    assert granted_ns / wall_ns == near(0.3)
    assert (granted_ns + delay_ns) / wall_ns == near(1.0), "the kernel's delay has throttling in it"
    assert 0 < throttled_ns < delay_ns
    assert stat_after["nr_throttled"] > stat_before["nr_throttled"]
    _, _, cpu_time_ns, cpu = guest.domain.vcpus()[0][0]
    assert cpu == 6
    assert after[0] <= cpu_time_ns + SECOND_NS / 10
    assert cpu_time_ns <= schedstat(host, pid, tid)[0]


def schedstat(host: PacedHost, pid: int, tid: int) -> tuple[int, ...]:
    return tuple(map(int, host.shimmed("cat", f"/proc/{pid}/task/{tid}/schedstat").split()))


def cpu_stat(host: PacedHost, pid: int) -> dict[str, int]:
    """Of libvirt's group of the first vCPU."""
    lines = Path(f"/proc/{pid}/cgroup").read_text().splitlines()
    own = next(line.split(":", 2) for line in lines if "cpu" in line.split(":", 2)[1].split(","))
    found = Path(f"/sys/fs/cgroup/{own[1]}{own[2]}").parent.glob("vcpu0/cpu.stat")
    text = host.shimmed("cat", str(next(found)))
    return {name: int(value) for name, value in map(str.split, text.splitlines())}


def test_a_killed_neighbour_claims_nothing(trial: Trial, host: PacedHost) -> None:
    """Last: it leaves the host without its second guest."""
    trial.taskset("two", "6")
    trial.run(*NAMES)
    os.kill(host.libvirt.pid_of(host.guests.pop("two").domain), signal.SIGKILL)
    (left,) = measured(trial, "one")
    assert left.granted_ratio == near(1.0)


@pytest.fixture
def shim_env(tmp_path: Path) -> dict[str, str]:
    subprocess.run(["make", "-s", "-C", settings.LAB / "shim", f"OUT={SHIM}"], check=True)
    env = {"NUMA_SHIM_VPMU": str(tmp_path), "NUMA_SHIM_MODELLED_CPUS": str(CPUS)}
    return {**env, "LD_PRELOAD": str(SHIM), "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}


def test_affinities_are_recorded_by_the_threads_own_number_and_start(
    shim_env: dict[str, str], tmp_path: Path
) -> None:
    with subprocess.Popen(["unshare", "--pid", "--fork", "--kill-child", "sleep", "600"]) as outer:
        children = Path(f"/proc/{outer.pid}/task/{outer.pid}/children")
        wait_until(lambda: children.read_text().strip(), "unshare has a child")
        (child,) = children.read_text().split()
        taskset(shim_env, "-cp", "5-6", child)
        assert taskset(shim_env, "-cp", child).strip().endswith("list: 5,6")
        started = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[19]
        assert (tmp_path / "affinity/1").read_text() == f"{started} 5,6\n"
        (tmp_path / "affinity/1").write_text(f"{int(started) - 1} 3\n")
        assert taskset(shim_env, "-cp", child).strip().endswith("list: 0-7")
        outer.kill()


def test_the_kernels_own_answer_is_a_copy_too(shim_env: dict[str, str]) -> None:
    """Who keeps files open must not keep the one from before its guest came to the model."""
    look = "import os; f = os.open('/proc/1/schedstat', os.O_RDONLY); print(os.fstat(f).st_dev)"
    told = subprocess.run(["python3", "-c", look], env=shim_env, check=True, capture_output=True)
    assert int(told.stdout) != Path("/proc/1").stat().st_dev


def taskset(env: dict[str, str], *argv: str) -> str:
    command = ["taskset", *argv]
    return subprocess.run(command, env=env, check=True, capture_output=True, text=True).stdout
