# SPDX-License-Identifier: Apache-2.0
"""SIGHUP: the configuration files are read again, and what is mutable takes effect at once.

Where a file cannot be read or a value makes no sense, the process goes on with what it has, and
says so. oslo.config itself warns of changed options that need a restart.
"""

import logging
from collections.abc import Callable

from oslo_config import cfg

from nova_vp import conf as options

LOG = logging.getLogger(__name__)


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
            LOG.error("the configuration is not taken over, the former values hold: %s", exc)
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
