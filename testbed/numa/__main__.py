# SPDX-License-Identifier: Apache-2.0
"""The command line of the NUMA lab."""

import sys

from testbed.emulated.command import main
from testbed.numa.settings import MACHINE

if __name__ == "__main__":
    sys.exit(main(MACHINE))
