# SPDX-License-Identifier: Apache-2.0
"""The weight of QEMU's threads besides the vCPUs, on the fake, on real guests, and in groups as
other hosts have them."""

import shutil
from pathlib import Path

import libvirt
import pytest

from nova_vp.core.types.knob import (
    NO_EMULATOR_WEIGHT,
    WEIGHT_RANGES,
    Applied,
    EmulatorWeight,
    Held,
    Knob,
    WeightUnit,
)
from tests.host_subjects import restore
from vp_agent.drivers.base import ApplyFailed, GuestGone
from vp_agent.drivers.cgroups import cpu_group

KNOB = Knob.EMULATOR_WEIGHT
V2 = ["plain, version 2", "scope, version 2"]
on_every_host = pytest.mark.parametrize(
    "weighing", ["fake", "kernel", "scope, version 1", *V2], indirect=True
)
on_version_2 = pytest.mark.parametrize("weighing", V2, indirect=True)
on_libvirts_groups = pytest.mark.parametrize("weighing", ["kernel"], indirect=True)


def given(host, uuid) -> EmulatorWeight:
    [weight] = host.emulator_weights(uuid)
    return weight


def times(weight: EmulatorWeight, factor: float) -> EmulatorWeight:
    return weight._replace(number=round(weight.number * factor))


def an_entry(uuid: str, weight: EmulatorWeight, original: EmulatorWeight) -> Applied:
    return Applied(uuid, 7, (Held(KNOB, weight, original, "overlays", "overlays-1"),))


def seen(host) -> EmulatorWeight:
    """As the tick has it."""
    [guest] = host.guests.read()
    return guest.emulator_weight


@on_every_host
def test_all_threads_besides_the_vcpus_get_it_and_no_other_group(weighing):
    uuid = weighing.boot(shares=700)
    original, machine, quotas = given(weighing, uuid), weighing.weight(uuid), weighing.quotas(uuid)
    assert original.number == WEIGHT_RANGES[original.unit].default
    entry = an_entry(uuid, times(original, 4), original)
    weighing.journal.write(entry)
    for factor in (2, 4, 0.25, 4):
        weighing.emulator.apply(uuid, KNOB, times(original, factor))
        assert weighing.emulator_weights(uuid) == {times(original, factor)}
    assert weighing.emulator.read(uuid, KNOB) == seen(weighing) == times(original, 4)
    assert (weighing.weight(uuid), weighing.quotas(uuid)) == (machine, quotas)
    for _ in range(2):
        restore(weighing.emulator, entry)
        assert weighing.emulator_weights(uuid) == {original}


@on_every_host
def test_a_new_agent_restores_what_the_old_one_set(weighing):
    uuid = weighing.boot()
    original = given(weighing, uuid)
    entry = an_entry(uuid, times(original, 8), original)
    weighing.journal.write(entry)
    weighing.emulator.apply(uuid, KNOB, times(original, 8))
    weighing.restart_agent()
    assert weighing.journal.read()[uuid] == entry
    restore(weighing.emulator, weighing.journal.read()[uuid])
    assert weighing.emulator_weights(uuid) == {original}


@on_every_host
def test_somebody_elses_change_of_one_that_we_hold_is_seen_by_the_next_read(weighing):
    uuid = weighing.boot()
    original = given(weighing, uuid)
    ours = times(original, 2)
    weighing.journal.write(an_entry(uuid, ours, original))
    weighing.emulator.apply(uuid, KNOB, ours)
    assert seen(weighing) == ours
    weighing.weigh_emulator_by_hand(uuid, 300)
    assert seen(weighing) == original._replace(number=300)
    assert weighing.emulator.read(uuid, KNOB) == original._replace(number=300)


@on_every_host
def test_what_is_no_weight_of_this_host_is_refused_before_anything_changes(weighing):
    uuid = weighing.boot()
    original = given(weighing, uuid)
    least, most, default = WEIGHT_RANGES[original.unit]
    [other] = set(WeightUnit) - {original.unit}
    for wrong in (
        original._replace(number=least - 1),
        original._replace(number=most + 1),
        original._replace(number=default + 1, unit=other),
        NO_EMULATOR_WEIGHT,
    ):
        with pytest.raises(ApplyFailed):
            weighing.emulator.apply(uuid, KNOB, wrong)
    assert weighing.emulator_weights(uuid) == {original}


@on_every_host
def test_an_original_that_says_nothing_here_becomes_the_default(weighing):
    """It was journalled on a host of the other cgroup version, or damaged."""
    uuid = weighing.boot()
    original = given(weighing, uuid)
    [unit] = set(WeightUnit) - {original.unit}
    for strange in (EmulatorWeight(1234, unit), NO_EMULATOR_WEIGHT):
        weighing.emulator.apply(uuid, KNOB, times(original, 2))
        restore(weighing.emulator, an_entry(uuid, times(original, 2), strange))
        assert weighing.emulator_weights(uuid) == {original}


@on_every_host
def test_it_outlasts_the_host_services_and_ends_with_the_process(weighing):
    uuid = weighing.boot()
    original = given(weighing, uuid)
    weighing.emulator.apply(uuid, KNOB, times(original, 2))
    weighing.stop_host()
    weighing.start_host()
    weighing.reload_host()
    assert weighing.emulator.read(uuid, KNOB) == times(original, 2)
    weighing.soft_reboot(uuid)
    assert weighing.emulator.read(uuid, KNOB) == original


@on_every_host
def test_of_a_guest_that_is_gone_it_says_so(weighing):
    uuid = weighing.boot()
    original = given(weighing, uuid)
    weighing.emulator.apply(uuid, KNOB, times(original, 2))
    weighing.end(uuid)
    with pytest.raises(GuestGone):
        weighing.emulator.read(uuid, KNOB)
    with pytest.raises(GuestGone):
        weighing.emulator.apply(uuid, KNOB, times(original, 2))
    with pytest.raises(GuestGone):
        restore(weighing.emulator, an_entry(uuid, times(original, 2), original))


@on_libvirts_groups
def test_an_io_thread_that_is_plugged_in_starts_at_the_default_and_goes_back_with_the_rest(
    weighing,
):
    uuid = weighing.boot()
    original = given(weighing, uuid)
    ours = times(original, 2)
    weighing.journal.write(an_entry(uuid, ours, original))
    weighing.emulator.apply(uuid, KNOB, ours)
    weighing.domain(uuid).addIOThread(2, libvirt.VIR_DOMAIN_AFFECT_LIVE)
    assert weighing.emulator_weights(uuid) == {original, ours}
    weighing.restart_agent()
    assert seen(weighing) == original, "it is set again"
    weighing.emulator.apply(uuid, KNOB, ours)
    assert weighing.emulator_weights(uuid) == {ours}
    restore(weighing.emulator, an_entry(uuid, ours, original))
    assert weighing.emulator_weights(uuid) == {original}


@on_version_2
@pytest.mark.parametrize("layout", ["idle", "without"])
def test_where_the_threads_have_no_weight_nothing_is_set_or_restored(weighing, layout):
    """Somebody made them idle (`cpu.idle`), or they have no group of their own."""
    uuid = weighing.boot()
    original = given(weighing, uuid)
    if layout == "idle":
        weighing.weigh_emulator_by_hand(uuid, 0)
    else:
        above = Path(cpu_group(weighing.tids(uuid)[0]).path).parent
        for name in ("emulator", "iothread1"):
            shutil.rmtree(above / name)
    assert weighing.emulator.read(uuid, KNOB) == seen(weighing) == NO_EMULATOR_WEIGHT
    with pytest.raises(ApplyFailed, match="have no CPU weight"):
        weighing.emulator.apply(uuid, KNOB, times(original, 2))
    restore(weighing.emulator, an_entry(uuid, times(original, 2), original))
    assert weighing.emulator.read(uuid, KNOB) == NO_EMULATOR_WEIGHT
