# SPDX-License-Identifier: Apache-2.0
"""Placing and restoring, on the fake and on real libvirt with both actuators."""

from dataclasses import replace

import pytest

from nova_vp.core.types.knob import (
    NO_CPU_WEIGHT,
    NO_QUOTA,
    SETTABLE_CPU_WEIGHTS,
    WEIGHT_RANGES,
    Held,
    Knob,
    Quota,
    WeightUnit,
)
from tests.host_subjects import (
    a_cap,
    a_weight,
    an_applied,
    cap,
    place,
    placement,
    restore,
    weigh,
)
from vp_agent.drivers.base import ApplyFailed, GuestGone


@pytest.fixture
def corner(subject):
    """Less than the bound."""
    return frozenset({max(subject.all_cpus)})


@pytest.fixture
def applied(subject, corner):
    return an_applied(subject.boot(vcpus=2), corner, subject.all_cpus)


def test_every_vcpu_thread_is_placed_and_read_back(subject, applied, corner):
    assert placement(subject.actuator, applied.guest_uuid) == subject.all_cpus
    place(subject.actuator, applied.guest_uuid, corner)
    assert subject.affinities(applied.guest_uuid) == {corner}
    assert placement(subject.actuator, applied.guest_uuid) == corner
    assert {guest.placement for guest in subject.guests.read()} == {corner}


def test_restore_gives_every_thread_what_stood_there_before(subject, applied, corner):
    place(subject.actuator, applied.guest_uuid, corner)
    restore(subject.actuator, applied)
    assert subject.affinities(applied.guest_uuid) == {subject.all_cpus}
    assert [guest.unmanaged for guest in subject.guests.read()] == [None]


def test_restoring_twice_or_without_a_change_is_harmless(subject, applied):
    restore(subject.actuator, applied)
    restore(subject.actuator, applied)
    assert subject.affinities(applied.guest_uuid) == {subject.all_cpus}


def test_a_new_agent_restores_what_the_old_one_placed(subject, applied, corner):
    subject.journal.write(applied)
    place(subject.actuator, applied.guest_uuid, corner)
    subject.restart_agent()
    restore(subject.actuator, subject.journal.read()[applied.guest_uuid])
    assert subject.affinities(applied.guest_uuid) == {subject.all_cpus}


def test_placed_between_journal_and_drop_the_guest_stays_ours(subject, applied, corner):
    subject.journal.write(applied)
    place(subject.actuator, applied.guest_uuid, corner)
    assert [guest.unmanaged for guest in subject.guests.read()] == [None]


def test_beyond_novas_bound_nothing_is_placed(subject, corner):
    uuid = subject.boot(cpus=corner)
    for beyond in (subject.all_cpus, subject.all_cpus - corner, frozenset()):
        with pytest.raises(ApplyFailed):
            place(subject.actuator, uuid, beyond)
    assert subject.affinities(uuid) == {corner}


def test_a_journal_of_another_host_is_undone_to_the_bound_of_this_one(subject, corner):
    uuid = subject.boot(cpus=corner)
    restore(subject.actuator, an_applied(uuid, frozenset({4000}), frozenset({4000, 4001})))
    assert subject.affinities(uuid) == {corner}


def test_a_guest_that_is_gone_says_so(subject, applied, corner):
    place(subject.actuator, applied.guest_uuid, corner)
    subject.end(applied.guest_uuid)
    with pytest.raises(GuestGone):
        placement(subject.actuator, applied.guest_uuid)
    with pytest.raises(GuestGone):
        place(subject.actuator, applied.guest_uuid, corner)
    with pytest.raises(GuestGone):
        restore(subject.actuator, applied)


def test_suspend_and_resume_keep_the_placement(subject, applied, corner):
    place(subject.actuator, applied.guest_uuid, corner)
    subject.suspend(applied.guest_uuid)
    assert placement(subject.actuator, applied.guest_uuid) == corner
    subject.resume(applied.guest_uuid)
    assert subject.affinities(applied.guest_uuid) == {corner}


def test_a_restart_of_the_host_services_keeps_the_placement(subject, applied, corner):
    place(subject.actuator, applied.guest_uuid, corner)
    subject.stop_host()
    assert subject.affinities(applied.guest_uuid) == {corner}
    subject.start_host()
    assert placement(subject.actuator, applied.guest_uuid) == corner
    restore(subject.actuator, applied)
    assert subject.affinities(applied.guest_uuid) == {subject.all_cpus}


def test_new_threads_of_a_soft_reboot_float_and_can_be_placed_again(subject, applied, corner):
    place(subject.actuator, applied.guest_uuid, corner)
    subject.soft_reboot(applied.guest_uuid)
    assert subject.affinities(applied.guest_uuid) == {subject.all_cpus}
    place(subject.actuator, applied.guest_uuid, corner)
    assert subject.affinities(applied.guest_uuid) == {corner}


def test_a_suspended_guest_is_placed_too(subject, applied, corner):
    subject.suspend(applied.guest_uuid)
    place(subject.actuator, applied.guest_uuid, corner)
    assert subject.affinities(applied.guest_uuid) == {corner}


HALF = Quota(50_000, 100_000)
THIRD_OF_A_SHORT_PERIOD = Quota(10_000, 30_000)
NOVAS = Quota(20_000, 25_000)


def the_guest(subject):
    (guest,) = subject.guests.read()
    return guest


def test_the_emulator_threads_follow_the_vcpus_and_go_back(subject, applied, corner):
    place(subject.actuator, applied.guest_uuid, corner)
    assert subject.emulator_affinity(applied.guest_uuid) == corner
    restore(subject.actuator, applied)
    assert subject.emulator_affinity(applied.guest_uuid) == subject.all_cpus


def test_each_vcpu_has_its_own_cpus_and_the_emulator_threads_all_of_them(subject, corner):
    uuid = subject.boot(vcpus=2)
    apart = (corner, subject.all_cpus - corner)
    subject.guests.read()
    applied = an_applied(uuid, corner, subject.all_cpus)
    applied = applied.holding(replace(applied.of(Knob.PLACEMENT), value=apart))
    subject.journal.write(applied)
    subject.actuator.apply(uuid, Knob.PLACEMENT, apart)
    assert subject.vcpu_affinities(uuid) == apart
    assert subject.emulator_affinity(uuid) == subject.all_cpus
    assert subject.actuator.read(uuid, Knob.PLACEMENT) == apart
    guest = the_guest(subject)
    assert (guest.cpus, guest.placement, guest.unmanaged) == (apart, subject.all_cpus, None)
    restore(subject.actuator, applied)
    assert subject.affinities(uuid) == {subject.all_cpus}
    assert the_guest(subject).vcpu_placement == ()


def test_as_many_sets_of_cpus_as_vcpus(subject, corner):
    uuid = subject.boot(vcpus=2)
    with pytest.raises(ApplyFailed):
        subject.actuator.apply(uuid, Knob.PLACEMENT, (corner, corner, corner))
    assert subject.affinities(uuid) == {subject.all_cpus}


@pytest.mark.parametrize("quota", [HALF, THIRD_OF_A_SHORT_PERIOD, Quota(1000, 1000)])
def test_every_vcpu_is_capped_and_read_back(subject, quota):
    uuid = subject.boot(vcpus=2)
    assert subject.actuator.read(uuid, Knob.CPU_CAP) == NO_QUOTA
    assert the_guest(subject).quota == NO_QUOTA
    subject.journal.write(a_cap(uuid, quota))
    cap(subject.actuator, uuid, quota)
    assert subject.quotas(uuid) == {quota}
    assert subject.actuator.read(uuid, Knob.CPU_CAP) == quota
    guest = the_guest(subject)
    assert (guest.quota, guest.unmanaged) == (quota, None)


@pytest.mark.parametrize("novas", [NO_QUOTA, NOVAS, Quota(-1, 50_000)])
def test_a_lifted_cap_leaves_novas_own_quota(subject, novas):
    uuid = subject.boot(quota=novas)
    entry = a_cap(uuid, THIRD_OF_A_SHORT_PERIOD, novas)
    subject.journal.write(entry)
    for quota in (HALF, THIRD_OF_A_SHORT_PERIOD):
        cap(subject.actuator, uuid, quota)
    for _ in range(2):
        restore(subject.actuator, entry)
        assert subject.quotas(uuid) == {novas}
    subject.journal.drop(uuid)
    assert the_guest(subject).quota == novas


def test_a_cap_goes_up_again_as_far_as_novas_quota(subject):
    uuid = subject.boot(quota=NOVAS)
    subject.journal.write(a_cap(uuid, HALF, NOVAS))
    cap(subject.actuator, uuid, HALF)
    cap(subject.actuator, uuid, Quota(75_000, 100_000))
    for looser in (Quota(81_000, 100_000), Quota(25_000, 25_000), NO_QUOTA):
        with pytest.raises(ApplyFailed):
            cap(subject.actuator, uuid, looser)
    assert subject.quotas(uuid) == {Quota(75_000, 100_000)}


def test_a_cap_never_loosens_what_nova_gave(subject):
    uuid = subject.boot(quota=NOVAS)
    with pytest.raises(ApplyFailed):
        cap(subject.actuator, uuid, Quota(90_000, 100_000))
    assert subject.quotas(uuid) == {NOVAS}


def test_a_cap_never_loosens_what_an_operator_set_before(subject):
    uuid = subject.boot()
    subject.cap_by_hand(uuid, HALF)
    subject.restart_agent()
    with pytest.raises(ApplyFailed):
        cap(subject.actuator, uuid, Quota(80_000, 100_000))
    assert subject.quotas(uuid) == {HALF}


@pytest.mark.parametrize("quota", [Quota(999, 100_000), Quota(500, 999), Quota(0, 100_000)])
def test_what_is_no_quota_is_refused_before_anything_changes(subject, quota):
    uuid = subject.boot()
    with pytest.raises(ApplyFailed):
        cap(subject.actuator, uuid, quota)
    assert subject.quotas(uuid) == {NO_QUOTA}


def test_a_cap_that_somebody_changed_is_seen_by_the_next_read(subject):
    uuid = subject.boot()
    subject.journal.write(a_cap(uuid, HALF))
    cap(subject.actuator, uuid, HALF)
    assert the_guest(subject).quota == HALF
    subject.cap_by_hand(uuid, Quota(30_000, 100_000))
    assert the_guest(subject).quota == Quota(30_000, 100_000)


def test_placed_and_capped_each_is_undone_alone(subject, applied, corner):
    uuid = applied.guest_uuid
    both = applied.holding(a_cap(uuid, HALF).of(Knob.CPU_CAP))
    subject.journal.write(both)
    place(subject.actuator, uuid, corner)
    cap(subject.actuator, uuid, HALF)
    subject.restart_agent()
    read = subject.journal.read()[uuid]
    assert read == both
    subject.actuator.restore(uuid, read.of(Knob.PLACEMENT))
    assert (subject.affinities(uuid), subject.quotas(uuid)) == ({subject.all_cpus}, {HALF})
    subject.actuator.restore(uuid, read.of(Knob.CPU_CAP))
    assert subject.quotas(uuid) == {NO_QUOTA}


def test_a_cap_lasts_while_the_guest_and_the_host_services_rest(subject):
    uuid = subject.boot()
    cap(subject.actuator, uuid, HALF)
    subject.suspend(uuid)
    subject.resume(uuid)
    subject.stop_host()
    assert subject.quotas(uuid) == {HALF}
    subject.start_host()
    assert subject.actuator.read(uuid, Knob.CPU_CAP) == HALF
    restore(subject.actuator, a_cap(uuid, HALF))
    assert subject.quotas(uuid) == {NO_QUOTA}


def test_a_soft_reboot_starts_at_novas_quota(subject):
    uuid = subject.boot(quota=NOVAS)
    cap(subject.actuator, uuid, HALF)
    subject.soft_reboot(uuid)
    assert subject.quotas(uuid) == {NOVAS}


def test_a_cap_on_a_guest_that_is_gone_says_so(subject):
    uuid = subject.boot()
    cap(subject.actuator, uuid, HALF)
    subject.end(uuid)
    with pytest.raises(GuestGone):
        subject.actuator.read(uuid, Knob.CPU_CAP)
    with pytest.raises(GuestGone):
        cap(subject.actuator, uuid, HALF)
    with pytest.raises(GuestGone):
        restore(subject.actuator, a_cap(uuid, HALF))


def times(weight, factor):
    return weight._replace(number=round(weight.number * factor))


@pytest.mark.parametrize("shares", [None, 1500])
def test_a_weight_is_set_and_what_stood_there_before_comes_back_verbatim(weighing, shares):
    uuid = weighing.boot(shares=shares)
    other = weighing.boot()
    original, others = weighing.weight(uuid), weighing.weight(other)
    assert original.number == (shares or WEIGHT_RANGES[original.unit].default)
    heavy = times(original, 4)
    entry = a_weight(uuid, heavy, original)
    weighing.journal.write(entry)
    weigh(weighing.actuator, uuid, heavy)
    assert weighing.weight(uuid) == heavy
    assert weighing.actuator.read(uuid, Knob.CPU_WEIGHT) == heavy
    for _ in range(2):
        restore(weighing.actuator, entry)
        assert weighing.weight(uuid) == original
    assert weighing.weight(other) == others


@pytest.mark.parametrize("end", ["least", "most"])
def test_every_weight_that_kernel_and_libvirt_take_can_be_set(weighing, end):
    uuid = weighing.boot()
    original = weighing.weight(uuid)
    extreme = original._replace(number=getattr(SETTABLE_CPU_WEIGHTS[original.unit], end))
    weigh(weighing.actuator, uuid, extreme)
    assert weighing.weight(uuid) == extreme


def test_what_is_no_weight_of_this_host_is_refused_before_anything_changes(weighing):
    uuid = weighing.boot()
    original = weighing.weight(uuid)
    least, most, default = SETTABLE_CPU_WEIGHTS[original.unit]
    [other] = set(WeightUnit) - {original.unit}
    for wrong in (
        original._replace(number=least - 1),
        original._replace(number=most + 1),
        original._replace(number=default + 1, unit=other),
        NO_CPU_WEIGHT,
    ):
        with pytest.raises(ApplyFailed):
            weigh(weighing.actuator, uuid, wrong)
    assert weighing.weight(uuid) == original


@pytest.mark.parametrize("shares", [None, 1500])
def test_a_weight_that_libvirt_could_not_put_back_is_left(weighing, shares):
    """Also when a journal of it, written beforehand, is taken back."""
    uuid = weighing.boot(shares=shares)
    original = weighing.weight(uuid)
    if original.unit is WeightUnit.SHARES:
        pytest.skip("the kernel takes none here that libvirt refuses")
    by_hand = original._replace(number=SETTABLE_CPU_WEIGHTS[original.unit].least - 1)
    weighing.weigh_by_hand(uuid, by_hand.number)
    with pytest.raises(ApplyFailed):
        weigh(weighing.actuator, uuid, times(original, 2))
    assert weighing.weight(uuid) == by_hand
    entry = a_weight(uuid, times(original, 2), by_hand)
    weighing.journal.write(entry)
    restore(weighing.actuator, entry)
    assert weighing.weight(uuid) == by_hand


def test_each_tick_sees_the_weight_that_we_hold_and_whoever_changes_it(weighing):
    uuid = weighing.boot()
    original = weighing.weight(uuid)
    assert the_guest(weighing).cpu_weight == original
    heavy = times(original, 3)
    weighing.journal.write(a_weight(uuid, heavy, original))
    weigh(weighing.actuator, uuid, heavy)
    guest = the_guest(weighing)
    assert (guest.cpu_weight, guest.unmanaged) == (heavy, None)
    weighing.weigh_by_hand(uuid, 77)
    assert the_guest(weighing).cpu_weight == original._replace(number=77)


def test_a_new_agent_restores_the_weight_that_the_old_one_changed(weighing):
    uuid = weighing.boot(shares=300)
    original = weighing.weight(uuid)
    light = times(original, 0.1)
    entry = a_weight(uuid, light, original)
    weighing.journal.write(entry)
    weigh(weighing.actuator, uuid, light)
    weighing.restart_agent()
    assert weighing.journal.read()[uuid] == entry
    restore(weighing.actuator, weighing.journal.read()[uuid])
    assert weighing.weight(uuid) == original


def test_a_weight_and_its_original_outlast_what_the_host_writes_again(weighing):
    """systemd's daemon-reload writes what systemd was told."""
    uuid = weighing.boot()
    original = weighing.weight(uuid)
    heavy = times(original, 4)
    weigh(weighing.actuator, uuid, heavy)
    weighing.reload_host()
    assert weighing.weight(uuid) == heavy
    restore(weighing.actuator, a_weight(uuid, heavy, original))
    weighing.reload_host()
    assert weighing.weight(uuid) == original


@pytest.mark.parametrize("shares", [None, 700])
@pytest.mark.parametrize("of", ["another host", "nobody who can be read"])
def test_an_original_that_says_nothing_here_becomes_what_nova_gives(weighing, shares, of):
    """It was journalled on a host of the other cgroup version, or damaged."""
    uuid = weighing.boot(shares=shares)
    novas = weighing.weight(uuid)
    heavy = times(novas, 4)
    [unit] = set(WeightUnit) - {novas.unit}
    foreign = novas._replace(number=1234, unit=unit) if of == "another host" else NO_CPU_WEIGHT
    weigh(weighing.actuator, uuid, heavy)
    restore(weighing.actuator, a_weight(uuid, heavy, foreign))
    assert weighing.weight(uuid) == novas


@pytest.mark.parametrize(
    "weighing", ["fake", "plain, version 2", "scope, version 2"], indirect=True
)
def test_a_guest_that_somebody_made_idle_is_left_so(weighing):
    """`cpu.idle`: the kernel shows the weight 0, and takes none."""
    uuid = weighing.boot()
    original = weighing.weight(uuid)
    heavy = times(original, 2)
    weigh(weighing.actuator, uuid, heavy)
    weighing.weigh_by_hand(uuid, 0)
    assert weighing.actuator.read(uuid, Knob.CPU_WEIGHT) == NO_CPU_WEIGHT
    assert the_guest(weighing).cpu_weight == NO_CPU_WEIGHT
    with pytest.raises(ApplyFailed):
        weigh(weighing.actuator, uuid, heavy)
    restore(weighing.actuator, a_weight(uuid, heavy, original))
    assert weighing.weight(uuid).number == 0


def test_a_weight_lasts_while_the_guest_and_the_host_services_rest(weighing):
    uuid = weighing.boot()
    original = weighing.weight(uuid)
    heavy = times(original, 2)
    weigh(weighing.actuator, uuid, heavy)
    weighing.suspend(uuid)
    weighing.resume(uuid)
    weighing.stop_host()
    assert weighing.weight(uuid) == heavy
    weighing.start_host()
    assert weighing.actuator.read(uuid, Knob.CPU_WEIGHT) == heavy
    restore(weighing.actuator, a_weight(uuid, heavy, original))
    assert weighing.weight(uuid) == original


def test_a_soft_reboot_starts_at_novas_weight_and_can_be_weighed_again(weighing):
    uuid = weighing.boot(shares=500)
    novas = weighing.weight(uuid)
    weigh(weighing.actuator, uuid, times(novas, 2))
    weighing.soft_reboot(uuid)
    assert weighing.weight(uuid) == novas
    assert weighing.actuator.read(uuid, Knob.CPU_WEIGHT) == novas
    weigh(weighing.actuator, uuid, times(novas, 3))
    assert weighing.weight(uuid) == times(novas, 3)


def test_a_weight_on_a_guest_that_is_gone_says_so(weighing):
    uuid = weighing.boot()
    original = weighing.weight(uuid)
    heavy = times(original, 2)
    weigh(weighing.actuator, uuid, heavy)
    weighing.end(uuid)
    with pytest.raises(GuestGone):
        weighing.actuator.read(uuid, Knob.CPU_WEIGHT)
    with pytest.raises(GuestGone):
        weigh(weighing.actuator, uuid, heavy)
    with pytest.raises(GuestGone):
        restore(weighing.actuator, a_weight(uuid, heavy, original))


def test_placed_capped_and_weighed_each_is_undone_alone(subject, applied, corner):
    uuid = applied.guest_uuid
    original = subject.weight(uuid)
    heavy = times(original, 2)
    every = applied.holding(a_cap(uuid, HALF).of(Knob.CPU_CAP))
    every = every.holding(Held(Knob.CPU_WEIGHT, heavy, original, "vp", "vp-3"))
    subject.journal.write(every)
    place(subject.actuator, uuid, corner)
    cap(subject.actuator, uuid, HALF)
    weigh(subject.actuator, uuid, heavy)
    assert (subject.affinities(uuid), subject.quotas(uuid)) == ({corner}, {HALF})
    subject.actuator.restore(uuid, every.of(Knob.CPU_WEIGHT))
    assert (subject.affinities(uuid), subject.quotas(uuid)) == ({corner}, {HALF})
    assert subject.weight(uuid) == original
    weigh(subject.actuator, uuid, heavy)
    subject.actuator.restore(uuid, every.of(Knob.PLACEMENT))
    subject.actuator.restore(uuid, every.of(Knob.CPU_CAP))
    assert (subject.affinities(uuid), subject.quotas(uuid)) == ({subject.all_cpus}, {NO_QUOTA})
    assert subject.weight(uuid) == heavy
