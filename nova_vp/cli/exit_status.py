# SPDX-License-Identifier: Apache-2.0
"""How commands end that somebody stops: by Ctrl-C, or since `| head -1` has read enough.

Neither is a failure to tell of, and no traceback helps whoever asked for it. No service runs by way
of this: what breaks off there is news.
"""

import os
import select
import sys
from collections.abc import Callable

INTERRUPTED = 130
PIPE_CLOSED = 141
"""As shells have it of programs that the signals ended."""


def quietly(command: Callable[[], int]) -> int:
    """Its exit status."""
    try:
        status = command()
        sys.stdout.flush()
        return status
    except BrokenPipeError:
        if not _is_reader_gone():
            raise
        # What is not written yet has nowhere to go, and Python would complain of it as it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return PIPE_CLOSED
    except KeyboardInterrupt:
        return INTERRUPTED


def _is_reader_gone() -> bool:
    """The pipe that broke may be another one than standard output."""
    poll = select.poll()
    poll.register(sys.stdout.fileno(), 0)  # That it is broken is always told.
    return bool(poll.poll(0))
