# SPDX-License-Identifier: Apache-2.0
"""Unix signals become calls on a thread of their own; SIGHUP reads the configuration again.

A Python signal handler runs between two lines of the main thread, whichever locks that holds, and
not at all while it is in a library. Here the interpreter only writes a byte, whatever it is doing.
"""

import logging
import os
import signal
import threading
from collections.abc import Callable, Mapping

from oslo_config import cfg

from nova_vp import conf as options

LOG = logging.getLogger(__name__)


def listen(calls: Mapping[signal.Signals, Callable[[], None]]) -> None:
    """From the main thread, once for the life of the process. Called is what stands in `calls` when
    the signal comes; what it raises is logged."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    for number in calls:
        signal.signal(number, lambda *_: None)  # The default would end us.
    threading.Thread(target=_serve, args=(reading, calls), name="signals", daemon=True).start()


def _serve(reading: int, calls: Mapping[signal.Signals, Callable[[], None]]) -> None:
    while True:
        for number in os.read(reading, 64):
            call = calls.get(signal.Signals(number))
            if call:
                _try(call, number)


def _try(call: Callable[[], None], number: int) -> None:
    try:
        call()
    except Exception:  # the next signal must be heard too
        LOG.exception("signal %d was not obeyed", number)


class Reloader:
    def __init__(self, conf: cfg.ConfigOpts, take: Callable[[], None]) -> None:
        """`take` takes over what the mutable options say; it changes nothing where it raises
        cfg.Error."""
        self._conf = conf
        self._take = take

    def reload(self) -> None:
        try:
            self._try_out()
            changed = self._conf.mutate_config_files()
            # It forgets the values that it keeps before it reads, not after: what another thread
            # asked for meanwhile would stay as it was. This forgets them again.
            self._conf.register_opts([])
            self._take()
        except (cfg.Error, ValueError, OSError) as exc:
            LOG.error(
                "the configuration is not taken over, the former values hold; correct this and "
                "reload again: %s",
                exc,
            )
            return
        told = sorted(f"[{group or 'DEFAULT'}] {name}" for group, name in changed)
        LOG.info("the configuration was read again; changed: %s", ", ".join(told) or "nothing")

    def _try_out(self) -> None:
        """oslo.config lets go of the former values before it looks at the new ones."""
        trial = cfg.ConfigOpts()
        options.register_all(trial)
        files, folders = self._conf.config_file, self._conf.config_dir
        trial([], default_config_files=files, default_config_dirs=folders)
        options.check(trial)
