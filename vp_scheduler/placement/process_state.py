# SPDX-License-Identifier: Apache-2.0
"""The one host view of a scheduler process, and the listener that feeds it.

Nova constructs filters and weighers without arguments, each on its own, and before it forks its
workers; threads and connections made then would be broken in every worker. So a process gets its
view and listener after the fork, or, if it never forks, with its first request.
"""

import os
import sys
import threading

from oslo_config import cfg

from nova_vp.conf import bus, policy, scheduler
from nova_vp.signing.identity import Identity, trusted_keys
from nova_vp.signing.keyring import FirstKnown, ToldKeys
from nova_vp.signing.senders import Process
from vp_scheduler.placement.host_scorer import HostScorer
from vp_scheduler.placement.host_view import HostView
from vp_scheduler.placement.listener import DigestListener
from vp_scheduler.placement.settings import SettingsReader

_lock = threading.Lock()
_conf: cfg.ConfigOpts | None = None
_scorer: HostScorer | None = None


def register_opts(conf: cfg.ConfigOpts) -> None:
    """Ours, into Nova's own configuration."""
    bus.register_opts(conf)
    scheduler.register_opts(conf)
    policy.register_opts(conf)


def prepare(conf: cfg.ConfigOpts) -> None:
    """Be there when the process forks. Any number of times."""
    global _conf
    with _lock:
        if _conf is None:
            _conf = conf
            os.register_at_fork(after_in_child=_start_again)


def scorer() -> HostScorer:
    """This process's, listening from the first call on."""
    return _scorer or _start()


def _start() -> HostScorer:
    global _scorer
    with _lock:
        if _scorer is None:
            assert _conf is not None, "prepare() comes first"
            reader = SettingsReader(_conf)
            settings = reader.read()
            view = HostView(
                settings.stale_after_s,
                settings.known_hosts,
                good_enough_ratio=settings.good_enough_ratio,
            )
            told = ToldKeys()
            DigestListener(_identity(_conf, told), view, told).start()
            _scorer = HostScorer(view, reader.llc_permit)
        return _scorer


def _identity(conf: cfg.ConfigOpts, told: ToldKeys) -> Identity:
    """Controllers are trusted by file, agents as a vp-scheduler tells of them."""
    return Identity(conf, Process.NOVA_SCHEDULER, lambda: FirstKnown(trusted_keys(conf), told))


def _start_again() -> None:
    """In the child: nothing of the parent's listener or of its locks works here."""
    global _lock, _scorer
    _lock, _scorer = threading.Lock(), None
    if _is_patched_by_eventlet():
        _start_with_next_hub()
    else:
        _start()


def _is_patched_by_eventlet() -> bool:
    """As are schedulers of Nova 31 and 32, unless told otherwise."""
    patcher = sys.modules.get("eventlet.patcher")
    return patcher is not None and bool(patcher.is_monkey_patched("thread"))


def _start_with_next_hub() -> None:
    """oslo.service gives each worker a hub of its own after the fork, and no thread of the former
    hub ever goes on. A child that gets none starts with its first request.
    """
    hubs = sys.modules["eventlet.hubs"]
    use_hub = hubs.use_hub

    def use_hub_and_start(mod: object = None) -> None:
        hubs.use_hub = use_hub  # type: ignore[attr-defined]
        use_hub(mod)
        _start()

    hubs.use_hub = use_hub_and_start  # type: ignore[attr-defined]
