# SPDX-License-Identifier: Apache-2.0
"""The events of each CPU, against what its vendor documents.

The numbers below are typed from the documents, each named with its number and section, and never
taken from the table under test:

* Intel 64 and IA-32 Architectures SDM volume 3B (253669), "Architectural Performance Monitoring
  Version 1", table of UMask and event select encodings of pre-defined architectural events;
* Intel's event lists of each server generation (perfmon-events.intel.com):
  MEM_LOAD_L3_MISS_RETIRED, MEM_LOAD_UOPS_L3_MISS_RETIRED, SQ_MISC;
* AMD PPR Family 17h Model 31h (55803), Family 19h Model 01h (55898) and Model 11h (55901), and
  Performance Monitor Counters for Family 1Ah (58550), section "LS Events": PMCx025, PMCx043 and
  PMCx044;
* Arm Neoverse Technical Reference Manuals N1 (100616), V1 (101427), N2 (102099), V2 (102375),
  chapter "Performance Monitor Unit", table of PMU events.
"""

import pytest

from tests.cpuinfo import (
    EPYC_MILAN,
    EPYC_ROME,
    NEOVERSE_N1,
    SKYLAKE_SERVER,
    of_arm,
    of_x86,
)
from vp_agent.drivers.cpu_model import parse_cpu
from vp_agent.drivers.hardware_events import CpuEvents, Event, NoEvents, events_of

RAW = 4
# 253669: LLC reference 4FH/2EH, LLC misses 41H/2EH.
INTEL_REFERENCES, INTEL_MISSES = 0x4F2E, 0x412E


def events(text: str) -> CpuEvents:
    return events_of(parse_cpu(text))


def raw(event: Event | None) -> int | None:
    assert event is None or event.type == RAW
    return event and event.config


def intel(model: int) -> str:
    return of_x86("GenuineIntel", 6, model, 1)


def amd(family: int, model: int) -> str:
    return of_x86("AuthenticAMD", family, model, 0)


def fills(*sources: int) -> int:
    """Unit masks of one event are added: PPR, section "LS Events"."""
    return sum(sources)


# 55803, PMCx043 (Demand Data Cache Fills by Data Source): 02h cache of this CCX, 08h memory of this
# die, 10h cache and 40h memory of a different die.
ZEN_2 = (fills(0x02, 0x08, 0x10, 0x40), fills(0x08, 0x10, 0x40), 0x40)
# 55898, PMCx044 (Any Data Cache Fills by Data Source): 02h L3 or other L2 of this CCX, 04h other
# CCX of the same node, 08h memory of the same node, 10h CCX and 40h memory of a different node.
ZEN_3 = (fills(0x02, 0x04, 0x08, 0x10, 0x40), fills(0x04, 0x08, 0x10, 0x40), 0x40)
# 55901 and 58550 add 80h, extension memory (CXL).
ZEN_4 = (fills(0x02, 0x04, 0x08, 0x10, 0x40, 0x80), fills(0x04, 0x08, 0x10, 0x40, 0x80), 0x40)


@pytest.mark.parametrize(
    ("text", "select", "umasks"),
    [
        pytest.param(EPYC_ROME, 0x43, ZEN_2, id="EPYC-Rome"),
        pytest.param(amd(0x17, 0x71), 0x43, ZEN_2, id="Zen 2 desktop"),
        pytest.param(EPYC_MILAN, 0x44, ZEN_3, id="EPYC-Milan"),
        pytest.param(amd(0x19, 0x11), 0x44, ZEN_4, id="Genoa"),
        pytest.param(amd(0x19, 0xA0), 0x44, ZEN_4, id="Bergamo"),
        pytest.param(amd(0x1A, 0x02), 0x44, ZEN_4, id="Turin"),
    ],
)
def test_zen_counts_fills_by_where_they_came_from(
    text: str, select: int, umasks: tuple[int, ...]
) -> None:
    found = events(text)
    counted = (found.references, found.misses, found.remote)
    assert tuple(raw(event) for event in counted) == tuple(umask << 8 | select for umask in umasks)
    # PMCx025, Retired Lock Instructions: 01h comparable to a legacy bus lock.
    assert raw(found.bus_locks) == 0x0125
    assert not found.generic_is_llc


@pytest.mark.parametrize(
    ("text", "remote", "locks"),
    [
        # Haswell-EP, Broadwell-EP: MEM_LOAD_UOPS_L3_MISS_RETIRED.REMOTE_DRAM D3H/04H.
        pytest.param(intel(0x3F), 0x04D3, 0x10F4, id="Haswell-EP"),
        pytest.param(intel(0x4F), 0x04D3, 0x10F4, id="Broadwell-EP"),
        # From Skylake-SP on MEM_LOAD_L3_MISS_RETIRED.REMOTE_DRAM D3H/02H; SPLIT_LOCK F4H/10H.
        pytest.param(SKYLAKE_SERVER, 0x02D3, 0x10F4, id="Skylake-Server"),
        # Ice Lake-SP: SQ_MISC.BUS_LOCK F4H/10H. Sapphire Rapids: 2CH/10H.
        pytest.param(intel(0x6A), 0x02D3, 0x10F4, id="Ice Lake-SP"),
        pytest.param(intel(0x8F), 0x02D3, 0x102C, id="Sapphire Rapids"),
    ],
)
def test_intel_counts_architectural_events(text: str, remote: int, locks: int) -> None:
    found = events(text)
    assert (raw(found.references), raw(found.misses)) == (INTEL_REFERENCES, INTEL_MISSES)
    assert (raw(found.remote), raw(found.bus_locks)) == (remote, locks)
    assert found.generic_is_llc


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(NEOVERSE_N1, id="Neoverse-N1"),
        pytest.param(of_arm(0xD40), id="V1"),
        pytest.param(of_arm(0xD49), id="N2"),
        pytest.param(of_arm(0xD4F), id="V2"),
    ],
)
def test_neoverse_counts_ll_cache_and_tries_it_first(text: str) -> None:
    found = events(text)
    # LL_CACHE_RD 36H, LL_CACHE_MISS_RD 37H; L2D_CACHE_RD 50H shows whether they duplicate the L2.
    assert (raw(found.references), raw(found.misses)) == (0x36, 0x37)
    assert raw(found.l2_reads) == 0x50
    assert (found.remote, found.bus_locks) == (None, None)
    assert not found.generic_is_llc


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(of_x86("AuthenticAMD", 23, 1, 2), id="Zen 1, QEMU's EPYC"),
        pytest.param(of_x86("HygonGenuine", 24, 0, 1), id="Hygon"),
        pytest.param(of_x86("AuthenticAMD", 15, 6, 1), id="QEMU's qemu64"),
        pytest.param(intel(134), id="QEMU's Icelake-Server, an Atom's model"),
        pytest.param(intel(0x9E), id="Intel client"),
        pytest.param(of_x86("GenuineIntel", 19, 85, 1), id="another family's model 85"),
        pytest.param(amd(0x1A, 0x50), id="after Zen 5"),
        pytest.param(of_arm(0xD08), id="Cortex-A72"),
        pytest.param(of_arm(0xD0C, implementer=0xC0), id="another implementer's d0c"),
    ],
)
def test_a_cpu_that_the_table_lacks_is_refused_with_words(text: str) -> None:
    with pytest.raises(NoEvents) as refused:
        events(text)
    for word in (str(parse_cpu(text)), "no events are known", "AMD Zen 3", "counters = vpmu"):
        assert word in str(refused.value)


@pytest.mark.parametrize("text", [EPYC_ROME, EPYC_MILAN, SKYLAKE_SERVER, NEOVERSE_N1])
def test_one_group_fits_the_counters_that_smt_and_the_watchdog_leave(text: str) -> None:
    """Intel: four general counters of a thread, three taken; cycles and instructions are fixed.
    AMD: six (PPR, "Performance Monitor Counters"), one of them the NMI watchdog's."""
    assert len(events(text).group) <= 5
