# SPDX-License-Identifier: Apache-2.0
"""`vp-scheduler`: reads the configuration, runs the service until told to stop."""

import signal
import sys
import threading

from oslo_config import cfg
from oslo_log import log
from oslo_service import backend

# Before anything imports oslo.service's default, which is eventlet: oslo.messaging does.
backend.init_backend(backend.BackendType.THREADING)

from nova_vp import conf as options  # noqa: E402
from nova_vp.db.queries import Store  # noqa: E402
from vp_scheduler.service import Service  # noqa: E402


def main(argv: list[str] | None = None) -> int:
    conf = cfg.CONF  # oslo.messaging registers some of its options on this one only.
    options.register_all(conf)
    log.register_options(conf)
    try:
        conf(sys.argv[1:] if argv is None else argv, project="nova-vp", prog="vp-scheduler")
        options.check(conf)
    except cfg.Error as exc:
        print(f"vp-scheduler: configuration: {exc}", file=sys.stderr)
        return 1
    log.setup(conf, "nova-vp")
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    service = Service(conf, Store(conf))
    service.start()
    log.getLogger(__name__).info("running")
    stop.wait()
    service.stop()
    return 0
