# SPDX-License-Identifier: Apache-2.0
"""The one place where the agent's objects are made and handed to each other."""

import socket
import time
from dataclasses import dataclass
from pathlib import Path

from oslo_config import cfg
from stevedore import DriverManager, ExtensionManager
from stevedore.exception import NoMatches

from nova_vp import wire
from nova_vp.conf.agent import policy_from
from nova_vp.core.memory import Memory
from nova_vp.core.model import Homing, Mode, Policy
from vp_agent.control import Control
from vp_agent.drivers.base import Actuator, CountersDriver
from vp_agent.drivers.bus import BusPublisher, BusSender
from vp_agent.drivers.connection import Connection
from vp_agent.drivers.counters import CounterSettings, OpenedCounters, open_counters
from vp_agent.drivers.domains import Domains
from vp_agent.drivers.journal import LibvirtJournal
from vp_agent.drivers.libvirt_guests import LibvirtGuests
from vp_agent.facts import HostFacts
from vp_agent.hands import Hands
from vp_agent.pacing import Intervals
from vp_agent.state import ProfileKeeper, StateFolder
from vp_agent.tick import Agent, Host

ACTUATORS = "vp_agent.actuators"


class UnknownActuator(Exception):
    """No entry point of that name. The message lists those that are installed."""


@dataclass(frozen=True, slots=True)
class LibvirtSide:
    """What `release` needs as much as the agent does."""

    connection: Connection
    guests: LibvirtGuests
    journal: LibvirtJournal
    actuator: Actuator

    def close(self) -> None:
        self.connection.close()


def libvirt_side(conf: cfg.ConfigOpts) -> LibvirtSide:
    """Raises UnknownActuator. Connects when first used."""
    connection = Connection(conf.agent.libvirt_uri)
    domains = Domains(connection)
    return LibvirtSide(
        connection,
        LibvirtGuests(domains),
        LibvirtJournal(domains),
        _actuator(conf.agent.actuator, domains),
    )


def _actuator(name: str, domains: Domains) -> Actuator:
    try:
        manager = DriverManager(ACTUATORS, name)
    except NoMatches as exc:
        installed = ", ".join(sorted(ExtensionManager(ACTUATORS).names()))
        raise UnknownActuator(
            f"there is no actuator {name!r}: set [agent] actuator to one of {installed}"
        ) from exc
    actuator: Actuator = manager.driver(domains)
    return actuator


def counters(conf: cfg.ConfigOpts, connection: Connection) -> OpenedCounters:
    """Raises CountersUnavailable with every reason."""
    settings = CounterSettings(
        connect=lambda: connection.call(lambda open_connection: open_connection),
        vpmu_directory=Path(conf.agent.vpmu_directory),
    )
    return open_counters(conf.agent.counters, settings)


def host_name(conf: cfg.ConfigOpts) -> str:
    """Raises cfg.Error for a name under which nobody would hear us."""
    name = str(conf.agent.host or socket.gethostname())
    if not wire.is_host_name(name):
        raise cfg.Error(
            f"[agent] host = {name!r}: give nova-compute's [DEFAULT] host; letters, digits and "
            "_.:@- are allowed"
        )
    return name


@dataclass(frozen=True, slots=True)
class Built:
    agent: Agent
    control: Control
    publisher: BusPublisher
    facts: "FactsSource"


def build(
    conf: cfg.ConfigOpts, side: LibvirtSide, source: CountersDriver, state: StateFolder
) -> Built:
    policy = policy_from(conf)
    last_epoch, epoch = state.last_epoch(), state.next_epoch()
    control = Control(state, Mode(conf.agent.mode))
    facts = FactsSource(conf, side, source, control, policy)
    intervals = Intervals(conf.bus.refresh_interval_s, conf.bus.min_publish_interval_s)
    publisher = BusPublisher(BusSender(conf), facts, intervals, epoch)
    host = Host(
        guests=side.guests,
        counters=source,
        journal=side.journal,
        hands=Hands(side.journal, side.actuator, epoch),
        epoch=epoch,
        last_epoch=last_epoch,
    )
    memory = Memory(profiles=state.profiles())
    agent = Agent(host, control, publisher, ProfileKeeper(state), policy, memory)
    return Built(agent, control, publisher, facts)


class FactsSource:
    """What messages say of this host besides the decision, as it is at the moment."""

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        side: LibvirtSide,
        source: CountersDriver,
        control: Control,
        policy: Policy,
    ) -> None:
        self._host = host_name(conf)
        self._side = side
        self._source = source
        self._control = control
        self._homing = policy.home_on_arrival

    def __call__(self) -> HostFacts:
        return HostFacts(
            host=self._host,
            counters=self._source.name,
            actuator=self._side.actuator.name,
            is_homing=self._is_homing(),
            epoch_offset_s=time.time() - time.monotonic(),
            problems=tuple(f"{who}: {why}" for who, why in self._source.problems().items()),
            stopped_servers=self._side.guests.stopped(),
        )

    def _is_homing(self) -> bool:
        if self._homing is Homing.ENFORCE:
            return self._control.orders().mode is Mode.ENFORCE
        return self._homing is Homing.ALWAYS
