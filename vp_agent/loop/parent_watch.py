# SPDX-License-Identifier: Apache-2.0
"""An agent that ends with the program that started it: it watches its standard input.

The kernel closes a pipe however its other end dies, SIGKILL included, and through sudo and other
users too, where a signal on the parent's death (PR_SET_PDEATHSIG) is forgotten.
"""

import logging
import os
import sys
import threading

LOG = logging.getLogger(__name__)


def stop_with_parent(stop: threading.Event) -> None:
    """Sets `stop` once standard input ends; what is written there is nobody's."""
    descriptor = sys.stdin.fileno()

    def watch() -> None:
        while os.read(descriptor, 4096):
            pass
        LOG.info("stopping: the parent process has ended")
        stop.set()

    threading.Thread(target=watch, name="lifeline", daemon=True).start()
