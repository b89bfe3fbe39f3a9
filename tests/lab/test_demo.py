# SPDX-License-Identifier: Apache-2.0
"""`make demo` as a newcomer runs it: on hosts that observe, as a lab does that has just come up."""

import subprocess
import sys

from testbed.lab import settings
from tests.lab.hosts import HOSTS, set_mode


def test_the_victim_is_back_at_its_rate(lab_up):
    for host in HOSTS:
        set_mode(host, "observe")
    demo = (sys.executable, "-m", "testbed.lab.demo")
    ran = subprocess.run(demo, cwd=settings.ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "the victim is back at" in ran.stdout
