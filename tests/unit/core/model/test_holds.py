# SPDX-License-Identifier: Apache-2.0
"""What was done in vain is recognised again: by another process too, from a recording."""

import os
import subprocess
import sys

from nova_vp.core.model.holds import signature
from nova_vp.core.types.claim import Setting
from nova_vp.core.types.knob import Knob, LlcShare

SIGNATURE = """
from nova_vp.core.model.holds import signature
from nova_vp.core.types.claim import Setting
from nova_vp.core.types.knob import Knob, LlcShare
print(signature([
    Setting("vp1", Knob.PLACEMENT, (frozenset({1, 33, 65}), frozenset({2}))),
    Setting("vp2", Knob.LLC, LlcShare(0.5)),
]))
"""


def test_a_signature_is_the_same_in_every_process():
    found = {
        subprocess.run(
            [sys.executable, "-c", SIGNATURE],
            env={**os.environ, "PYTHONHASHSEED": seed},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(found) == 1


def placed(*cpus: int) -> int:
    return signature([Setting("vp1", Knob.PLACEMENT, (frozenset(cpus),))])


def test_a_signature_does_not_depend_on_the_order_of_a_set():
    """A recording may bring the same CPUs in another order."""
    assert list(frozenset((1, 9))) != list(frozenset((9, 1))), "else this says nothing"
    assert placed(1, 9) == placed(9, 1)


def test_what_differs_has_another_signature():
    llc = signature([Setting("vp1", Knob.LLC, LlcShare(0.5))])
    other = signature([Setting("vp2", Knob.LLC, LlcShare(0.5))])
    more = signature([Setting("vp1", Knob.LLC, LlcShare(0.6))])
    assert len({llc, other, more, placed(1), placed(2)}) == 5
