# SPDX-License-Identifier: Apache-2.0
"""The command line of the machine with systemd and unified cgroups."""

import sys

from testbed.cgroup2.settings import MACHINE
from testbed.emulated.command import main

if __name__ == "__main__":
    sys.exit(main(MACHINE))
