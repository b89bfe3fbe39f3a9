# SPDX-License-Identifier: Apache-2.0
"""What libvirt's journal says is put together anew only where a domain was read anew."""

from dataclasses import replace
from types import SimpleNamespace

from nova_vp.core.types.knob import NO_QUOTA, Applied, Held, Knob, Quota
from tests.unit.drivers.test_paced_reading import HELD, UUID, a_guest
from vp_agent.drivers.journal import LibvirtJournal

OTHER = Applied(UUID, 1, (Held(Knob.CPU_CAP, Quota(20_000), NO_QUOTA, "vp", "vp-2"),))


def test_each_domain_that_was_read_anew_is_seen() -> None:
    known = [a_guest()]
    journal = LibvirtJournal(SimpleNamespace(known=lambda: known))  # type: ignore[arg-type]
    assert journal.read() == {}
    for applied in (HELD, OTHER):
        known[0] = a_guest(applied=applied)
        assert journal.read() == {UUID: applied}
    leftover = replace(known[0].description, applied=HELD)
    known[0] = replace(a_guest(), leftover=leftover)
    assert journal.read() == {UUID: replace(HELD, epoch=0)}
    known.clear()
    assert journal.read() == {}


def test_without_any_change_it_is_the_same() -> None:
    known = [a_guest(applied=HELD)]
    journal = LibvirtJournal(SimpleNamespace(known=lambda: known))  # type: ignore[arg-type]
    assert journal.read() is journal.read()
