# SPDX-License-Identifier: Apache-2.0
"""What was done in vain is recognised again: by another process too, from a recording."""

import os
import subprocess
import sys

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
