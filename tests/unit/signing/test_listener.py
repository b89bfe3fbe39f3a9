# SPDX-License-Identifier: Apache-2.0
"""How often a listener looks up while it waits, with the oslo.messaging that is installed."""

from types import SimpleNamespace

from oslo_messaging._drivers.common import Timeout

from nova_vp.rpcserver import LEAST_PATIENCE_S, _PatientListener


class Silence:
    """A connection on which one message comes, and then none; it tells the listener to stop."""

    def __init__(self) -> None:
        self.waits_s: list[float] = []
        self.listener = _PatientListener(SimpleNamespace(prefetch_size=0), self)

    def consume(self, timeout: float) -> None:
        self.waits_s.append(timeout)
        if len(self.waits_s) == 5:
            self.listener._shutdown.set()
        if len(self.waits_s) > 1:
            raise Timeout


def test_after_a_message_it_waits_for_the_next_one_and_then_ever_longer() -> None:
    connection = Silence()
    connection.listener.poll()
    assert connection.waits_s == [LEAST_PATIENCE_S * times for times in (1, 1, 2, 4, 8)]
