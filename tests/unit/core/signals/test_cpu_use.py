# SPDX-License-Identifier: Apache-2.0
"""From CPU times to what is told of them: waiting, throttling by whom, steal, what is unknown."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nova_vp.core.types.cpu_time import NOT_MEASURED, CpuTimes, CpuUse, HostCpuTimes
from nova_vp.core.types.knob import Applied, Held, Knob, Quota
from tests.unit.core.build import COMPUTE, Host, uuid_of

NS = 10**9
NOVAS = Quota(80_000, 100_000)
CAP = Quota(30_000, 100_000)


def a_host(**fields) -> Host:
    host = Host()
    host.add("a", COMPUTE, vcpus=2, cpu_times=CpuTimes(0, 0, 0, "1"), **fields)
    host.tick()
    return host


def counts(host, ran_s=0.0, delay_s=0.0, throttled_s=0.0, name="a") -> CpuUse | None:
    """A second in which so much of it is counted."""
    was = host.guest(name).cpu_times
    times = CpuTimes(
        was.ran_ns + round(ran_s * NS),
        was.run_delay_ns + round(delay_s * NS),
        was.throttled_ns + round(throttled_s * NS),
        was.generation,
    )
    host.change(name, cpu_times=times)
    return host.view(name, host.tick()).cpu_use


def cap(host, original: Quota) -> None:
    held = Held(Knob.CPU_CAP, CAP, original, "vp", "a1")
    host.applied[uuid_of("a")] = Applied(uuid_of("a"), 1, (held,))


def test_waiting_is_the_share_of_the_cpu_time_wanted():
    use = counts(a_host(), ran_s=0.6, delay_s=0.2)
    assert use.waiting_ratio == pytest.approx(0.25)
    assert (use.throttled_ratio_ours, use.throttled_ratio_nova) == (0, 0)


def test_throttling_is_no_waiting():
    """The kernel's run delay holds it. A 30 % quota over 3 s: ran 0.90, delay 2.09,
    throttled 1.90."""
    use = counts(a_host(), ran_s=0.30, delay_s=0.6967, throttled_s=0.6333)
    assert use.waiting_ratio == pytest.approx(0.0634 / 0.3634, rel=1e-3)
    assert use.throttled_ratio_nova == pytest.approx(0.6333 / 0.9967, rel=1e-3)


def test_a_vp_that_wants_no_cpu_waits_for_none():
    use = counts(a_host())
    assert (use.waiting_ratio, use.throttled_ratio_ours, use.throttled_ratio_nova) == (0, 0, 0)


def test_throttled_time_that_is_counted_first_is_made_up_for():
    """The delay of a throttled thread is counted once it runs, in the next second maybe."""
    host = a_host()
    counts(host, ran_s=0.5, delay_s=0.1, throttled_s=0.4)
    use = counts(host, ran_s=0.5, delay_s=0.7, throttled_s=0.4)
    assert use.waiting_ratio == pytest.approx(0)


def test_throttling_under_our_cap_is_ours():
    host = a_host()
    cap(host, NOVAS)
    counts(host)
    use = counts(host, ran_s=0.6, delay_s=0.4, throttled_s=0.4)
    assert use.throttled_ratio_ours > 0 == use.throttled_ratio_nova


def test_where_nova_sets_no_quota_all_throttling_is_ours_at_both_ends_of_a_cap():
    host = a_host()
    cap(host, Quota())
    assert counts(host, ran_s=0.6, delay_s=0.4, throttled_s=0.4).throttled_nova_cores == 0
    host.applied.clear()
    use = counts(host, ran_s=0.6, delay_s=0.4, throttled_s=0.4)
    assert use.throttled_nova_cores == 0
    assert use.throttled_ours_cores == pytest.approx(0.4)


def test_when_our_cap_took_over_from_novas_quota_nobody_knows_whose_it_was():
    host = a_host()
    before = counts(host, ran_s=0.6, delay_s=0.2, throttled_s=0.1)
    cap(host, NOVAS)
    assert counts(host, ran_s=0.6, delay_s=0.4, throttled_s=0.4) == before
    assert counts(host, ran_s=0.6, delay_s=0.4, throttled_s=0.4).samples == 2


def test_a_change_of_caps_without_throttling_loses_nothing():
    host = a_host()
    cap(host, NOVAS)
    assert counts(host, ran_s=0.6, delay_s=0.2).samples == 1


@pytest.mark.parametrize(
    "change",
    [
        {"ran_ns": 0},
        {"run_delay_ns": 0},
        {"throttled_ns": 0},
        {"generation": "2"},
    ],
)
def test_what_begins_anew_is_no_sample(change):
    host = a_host()
    before = counts(host, ran_s=0.6, delay_s=0.2, throttled_s=0.1)
    host.change("a", cpu_times=host.guest("a").cpu_times._replace(**change))
    assert host.view("a", host.tick()).cpu_use == before
    assert counts(host, ran_s=0.5, delay_s=0.5).samples == 2


@pytest.mark.parametrize("span_s", [0.0, -3.0, 3600.0])
def test_a_clock_that_jumps_makes_no_sample(span_s):
    host = a_host()
    counts(host, ran_s=0.6, delay_s=0.2)
    times = host.guest("a").cpu_times
    host.change("a", cpu_times=times._replace(ran_ns=times.ran_ns + 9 * NS))
    use = host.view("a", host.tick(span_s)).cpu_use
    assert use is None or use.samples == 1


def test_what_is_not_read_any_more_becomes_unknown():
    host = a_host()
    assert counts(host, ran_s=0.6, delay_s=0.2) is not None
    host.change("a", cpu_times=None)
    uses = [host.view("a", host.tick()).cpu_use for _ in range(7)]
    assert uses[0] is not None
    assert uses[-1] is None


def test_a_new_start_forgets_the_old_one():
    host = a_host()
    counts(host, ran_s=0.6, delay_s=0.2)
    host.change("a", generation="2", cpu_times=CpuTimes(0, 0, 0, "2"))
    assert host.view("a", host.tick()).cpu_use is None


def test_a_guest_that_does_not_run_has_no_sample():
    host = a_host()
    host.change("a", is_running=False)
    assert counts(host, ran_s=0.6, delay_s=0.2) is None


def test_older_samples_fade():
    host = a_host()
    for _ in range(30):
        counts(host, ran_s=1.0)
    for _ in range(200):
        use = counts(host, ran_s=0.5, delay_s=0.5)
    assert use.samples == 20
    assert use.waiting_ratio == pytest.approx(0.5, abs=0.01)


ns = st.integers(0, 10**12)
times = st.none() | st.builds(CpuTimes, ns, ns, ns, st.sampled_from("12"))


@given(st.lists(times, min_size=2, max_size=8), st.lists(st.booleans(), min_size=8, max_size=8))
def test_ratios_are_shares_whatever_is_read(read, capped):
    host = Host()
    host.add("a", COMPUTE)
    for one, is_capped in zip(read, capped, strict=False):
        host.applied.clear()
        if is_capped:
            cap(host, NOVAS)
        host.change("a", cpu_times=one)
        use = host.view("a", host.tick()).cpu_use
        if use is not None:
            assert 0 <= use.waiting_ratio <= 1
            assert 0 <= use.throttled_ratio_ours + use.throttled_ratio_nova <= 1 + 1e-9
            assert min(use.ran_cores, use.run_delay_cores) >= 0


def test_steal_of_the_host_is_a_share_of_all_its_cpu_time():
    host = Host(host_cpu=HostCpuTimes(1000, 10))
    assert host.tick().steal_ratio is None
    host.host_cpu = HostCpuTimes(1400, 50)
    assert host.tick().steal_ratio == pytest.approx(0.1)
    assert host.tick().steal_ratio == pytest.approx(0.1)


@pytest.mark.parametrize("now", [HostCpuTimes(2000, 5), HostCpuTimes(900, 60)])
def test_steal_that_goes_back_is_no_sample(now):
    host = Host(host_cpu=HostCpuTimes(1000, 10))
    host.tick()
    host.host_cpu = now
    assert host.tick().steal_ratio is None


def test_steal_that_is_not_told_is_unknown():
    host = Host(host_cpu=HostCpuTimes(1000, 10))
    host.tick()
    host.host_cpu = HostCpuTimes(1400, 50)
    host.tick()
    host.host_cpu = None
    assert host.tick().steal_ratio is None
    assert host.state.host_cpu == NOT_MEASURED
