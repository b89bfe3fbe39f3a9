# SPDX-License-Identifier: Apache-2.0
"""Sends to a broker that may hang: nobody waits for it longer than a deadline.

oslo.messaging gives a broker that hangs `heartbeat_timeout_threshold` for each attempt, which is a
minute and more, and no cast another deadline. A shorter heartbeat would cost a broker of ten
thousand hosts its time.
"""

import threading
from collections.abc import Callable
from concurrent.futures import Future, wait

import oslo_messaging

from nova_vp.service.outage import Outage

SEND_TIMEOUT_S = 5.0
"""Longer than a broker needs that is restarted, and refuses connections meanwhile."""


class BoundedSends:
    """Of one process to one broker. Thread-safe."""

    def __init__(self, greet: Callable[[], None]) -> None:
        """`greet`: `BrokerProbe.greet`."""
        self._greet = greet
        self._outage = Outage("the message bus")

    @property
    def is_hanging(self) -> bool:
        return self._outage.is_on

    def do(self, send: Callable[[], None]) -> None:
        """Returns once it is sent. Raises what `send` raises, and MessageDeliveryFailure where the
        broker hangs: it may be sent later nevertheless."""
        if self._outage.is_on:
            raise oslo_messaging.MessageDeliveryFailure("the message bus hangs")
        sending: Future[None] = Future()

        def run() -> None:
            try:
                send()
            except Exception as exc:
                sending.set_exception(exc)
            else:
                sending.set_result(None)

        # It ends by oslo.messaging's own deadline, if nobody waits for it any more.
        threading.Thread(target=run, name="send", daemon=True).start()
        if not wait([sending], SEND_TIMEOUT_S).done:
            self._outage.note(TimeoutError(), self._greet)
            raise oslo_messaging.MessageDeliveryFailure(
                f"the message bus hangs: nothing was sent within {SEND_TIMEOUT_S:.0f} s"
            )
        sending.result()
