# SPDX-License-Identifier: Apache-2.0
"""The two receiving processes of the cluster benchmark, each writing down when it has what.

`service`: the real vp-scheduler; a report counts once its transaction is committed. `view`: what a
scheduler process keeps of the digests; one counts once it would be placed by.
"""

import json
import signal
import sys
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import IO, Any

from oslo_service import backend

backend.init_backend(backend.BackendType.THREADING)

from oslo_config import cfg  # noqa: E402

from nova_vp import conf as options  # noqa: E402
from nova_vp.db.report_store import NewReport, ReportStore  # noqa: E402
from nova_vp.signing.identity import Identity, trusted_keys  # noqa: E402
from nova_vp.signing.keyring import FirstKnown, ToldKeys  # noqa: E402
from nova_vp.signing.senders import Process  # noqa: E402
from vp_scheduler import main as vp_scheduler  # noqa: E402
from vp_scheduler.placement.host_view import HostView  # noqa: E402
from vp_scheduler.placement.listener import DigestListener  # noqa: E402


class WatchedStore(ReportStore):
    log: IO[str]

    def save_reports(self, reports: Iterable[NewReport]) -> None:
        batch = list(reports)
        super().save_reports(batch)
        now_s = time.monotonic()
        self.log.writelines(f"{now_s:.4f} {r.host} {r.version.sequence}\n" for r in batch)


class WatchedView(HostView):
    log: IO[str]

    def accept(self, text: object, sender_host: str) -> Any:
        super().accept(text, sender_host)
        message = json.loads(str(text))
        self.log.write(f"{time.monotonic():.4f} {message['host']} {message['seq']}\n")


def serve(config: str) -> int:
    vp_scheduler.ReportStore = WatchedStore  # type: ignore[misc]
    return vp_scheduler.main(["--config-file", config])


def listen(config: str) -> int:
    conf = cfg.ConfigOpts()
    options.register_all(conf)
    conf(["--config-file", config])
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    told = ToldKeys()
    identity = Identity(conf, Process.NOVA_SCHEDULER, lambda: FirstKnown(trusted_keys(conf), told))
    listener = DigestListener(identity, WatchedView(180.0), told)
    listener.start()
    stop.wait()
    listener.stop()
    return 0


def main() -> int:
    role, config, path = sys.argv[1:]
    with Path(path).open("w") as log:
        WatchedStore.log = WatchedView.log = log
        return serve(config) if role == "service" else listen(config)


if __name__ == "__main__":
    sys.exit(main())
