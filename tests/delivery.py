# SPDX-License-Identifier: Apache-2.0
"""Both ends of what vp-scheduler brings to hosts over the real bus: the service, and an agent."""

import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from oslo_config import cfg

from nova_vp.conf import database
from nova_vp.db.report_store import ReportStore
from tests import identities
from tests.bus_conf import a_conf
from tests.decisions import a_decision, a_view, facts
from tests.waiting import wait_until
from vp_agent.loop.command_handler import CommandHandler
from vp_agent.loop.command_server import CommandServer
from vp_agent.loop.state import StateFolder
from vp_agent.publish.bus import BusPublisher, BusSender
from vp_agent.publish.host_info import HostInfo
from vp_agent.publish.schedule import Intervals
from vp_scheduler.ingest.service import Service

QUICK = Intervals(refresh_s=3600.0, min_s=0.0)


def conf_of(broker_url: str, database_url: str) -> cfg.ConfigOpts:
    conf = a_conf(broker_url)
    database.register_opts(conf)
    conf.set_override("connection", database_url, group="database")
    return conf


@contextmanager
def serving(conf: cfg.ConfigOpts) -> Iterator[Service]:
    service = Service(identities.scheduler(conf), ReportStore(conf))
    service.start()
    wait_until(lambda: service.is_listening, "the service to listen")
    yield service
    service.stop(timeout_s=30.0)  # Else it would take the reports of the next test.


class AgentOnTheBus(ABC):
    """Control, publisher and command server of one host, as `vp-agent` wires them; no tick.

    Who inherits from it says how it is controlled, and what of that its reports tell.
    """

    def __init__(self, conf: cfg.ConfigOpts, folder: Path, host: str) -> None:
        identity, state = identities.agent(conf, host), StateFolder(str(folder))
        self.host = host
        self.facts = facts(host)
        self.control = self._controlled(state)
        self.publisher = BusPublisher(BusSender(identity), self._told, QUICK, state.next_epoch())
        self.server = CommandServer(identity, self.control, self.publisher)
        self.server.start()
        wait_until(lambda: self.server.is_listening, f"the agent of {host} to listen")

    @abstractmethod
    def _controlled(self, state: StateFolder) -> CommandHandler: ...

    @abstractmethod
    def _told(self) -> HostInfo: ...

    def publish(self, *numbers: int) -> None:
        """Of these servers; the same report is not sent again."""
        views = [a_view(number) for number in numbers]
        self.publisher.publish(a_decision(*views, at_s=time.monotonic()), ())

    def close(self) -> None:
        self.server.close()
        self.publisher.close()
