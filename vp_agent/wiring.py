# SPDX-License-Identifier: Apache-2.0
"""The one place where the agent's objects are made and handed to each other."""

import contextlib
import logging
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from oslo_config import cfg
from stevedore import DriverManager, ExtensionManager
from stevedore.exception import NoMatches

from nova_vp import wire
from nova_vp.conf.policy import policy_from
from nova_vp.core.types.knob import Knob
from nova_vp.core.types.policy import Mode, Policy
from nova_vp.core.types.state import CoreState
from nova_vp.core.types.topology import Limits
from nova_vp.signing.identity import Identity, trusted_keys
from nova_vp.signing.senders import Process
from vp_agent.drivers import emulator_weight
from vp_agent.drivers.balloon import Balloon
from vp_agent.drivers.base import Actuator, CountersDriver, GuestsDriver, MemoryMover, MemorySizer
from vp_agent.drivers.cache_partition import NONE as NO_PARTITION
from vp_agent.drivers.cache_partition import PartitionActuator, PartitionedGuests, open_partition
from vp_agent.drivers.connection import Connection
from vp_agent.drivers.counters import CounterSettings, OpenedCounters, open_counters
from vp_agent.drivers.dirty_rates import LibvirtDirtyRates
from vp_agent.drivers.domains import Domains, nothing_told
from vp_agent.drivers.grouped_guests import GroupedGuests, ServerGroups
from vp_agent.drivers.journal import LibvirtJournal
from vp_agent.drivers.libvirt_guests import LibvirtGuests
from vp_agent.drivers.reserving_journal import ReservingJournal
from vp_agent.format import limits_line
from vp_agent.latency.poller import Poller, open_sources
from vp_agent.loop.command_handler import CommandHandler
from vp_agent.loop.executor import Executor
from vp_agent.loop.migration_holds import MigrationHolds
from vp_agent.loop.monitor_calls import MonitorCalls
from vp_agent.loop.picture import OwnHost
from vp_agent.loop.recorder import Recorder
from vp_agent.loop.standalone import ReadOnlyHost, Standalone
from vp_agent.loop.state import StateFolder, StateKeeper
from vp_agent.loop.tick import Agent, Cluster
from vp_agent.loop.told_facts import ToldFacts
from vp_agent.monitors.runner import Monitors, Nics, open_monitors
from vp_agent.publish.asking_bus import BusEscalations, BusOverlayCalls, BusUsage
from vp_agent.publish.bus import BusPublisher, BusSender
from vp_agent.publish.escalator import Escalator
from vp_agent.publish.host_info import HostInfo
from vp_agent.publish.outbox import Outbox
from vp_agent.publish.schedule import Intervals
from vp_agent.publish.usage_log import UsageLog
from vp_agent.publish.usage_sender import UsageSender

if TYPE_CHECKING:
    from vp_agent.publish.metrics import Tally

LOG = logging.getLogger(__name__)
ACTUATORS = "vp_agent.actuators"
KERNEL = "kernel"
"""The actuator of which nothing stands in any XML."""
MOVERS = "vp_agent.memory"


class UnknownActuator(Exception):
    """No entry point of that name. The message lists those that are installed."""


@dataclass(frozen=True, slots=True)
class LibvirtSide:
    """What `release` needs as much as the agent does."""

    connection: Connection
    guests: GuestsDriver
    journal: LibvirtJournal
    unwritten: dict[str, frozenset[Knob]]
    """What is held of guests without the journal saying all of it."""
    actuator: Actuator
    partition: PartitionActuator
    memory: MemoryMover
    balloon: MemorySizer
    emulator: Actuator
    """Of the threads besides the vCPUs, beside either `actuator`."""
    nics: Nics
    """As of the last read of `guests`."""

    @property
    def actuators(self) -> dict[Knob, Actuator]:
        """With those that only undo."""
        undoing = {
            Knob.LLC: self.partition,
            Knob.MEMBW: self.partition,
            Knob.MEMORY: self.memory,
            Knob.MEMORY_SIZE: self.balloon,
        }
        return {**undoing, **by_knob(self.actuator, self.emulator)}

    @property
    def knobs(self) -> frozenset[Knob]:
        """Those that this host has, without those that are only there to undo."""
        return frozenset(knob for knob, one in self.actuators.items() if knob in one.knobs)

    def close(self) -> None:
        self.memory.close()
        self.connection.close()


def libvirt_side(
    conf: cfg.ConfigOpts, *, undoes_only: bool = False, facts: ToldFacts | None = None
) -> LibvirtSide:
    """`facts`: what the agent was told of the flavors of its servers. Raises UnknownActuator,
    PartitionUnavailable. Connects when first used."""
    connection = Connection(conf.agent.libvirt_uri)
    domains = Domains(connection, told_specs=facts.specs_of if facts else nothing_told)
    partition = open_partition(NO_PARTITION if undoes_only else conf.agent.partition, domains)
    if partition.why_not and not undoes_only:
        LOG.info("caches are not partitioned: %s", partition.why_not)
    guests = LibvirtGuests(domains, reads_cpu_times=conf.agent.cpu_times)
    return LibvirtSide(
        connection,
        _guests(conf, PartitionedGuests(guests, partition.actuator), facts),
        LibvirtJournal(domains),
        domains.unwritten,
        _actuator(conf.agent.actuator, domains),
        partition.actuator,
        open_mover(conf, domains),
        Balloon(domains),
        emulator_weight.create(domains),
        guests.nics,
    )


def _guests(conf: cfg.ConfigOpts, guests: GuestsDriver, facts: ToldFacts | None) -> GuestsDriver:
    if facts is None:
        return guests
    return GroupedGuests(guests, ServerGroups(lambda: facts.told.facts, conf.agent.server_groups))


def open_mover(conf: cfg.ConfigOpts, domains: Domains) -> MemoryMover:
    """Raises UnknownActuator."""
    create = _driver(MOVERS, "memory", conf.agent.memory)
    mover: MemoryMover = create(domains, conf.agent.memory_reserve_ratio)
    return mover


def _actuator(name: str, domains: Domains) -> Actuator:
    actuator: Actuator = _driver(ACTUATORS, "actuator", name)(domains)
    return actuator


def _driver(namespace: str, option: str, name: str) -> Callable[..., Any]:
    try:
        driver: Callable[..., Any] = DriverManager(namespace, name).driver
    except NoMatches as exc:
        installed = ", ".join(sorted(ExtensionManager(namespace).names()))
        raise UnknownActuator(
            f"there is no actuator {name!r}: set [agent] {option} to one of {installed}"
        ) from exc
    return driver


def by_knob(*actuators: Actuator) -> dict[Knob, Actuator]:
    return {knob: actuator for actuator in actuators for knob in actuator.knobs}


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


def limits(conf: cfg.ConfigOpts, state: StateFolder | None) -> Limits:
    """What this host's memory bears: as calibrated, where no option says otherwise.

    Raises cfg.Error.
    """
    calibration = state.calibration() if state else None
    found = calibration.limits if calibration else Limits()
    agent = conf.agent
    if 0 < agent.remote_penalty_ratio < 1:
        raise cfg.Error(
            f"[agent] remote_penalty_ratio = {agent.remote_penalty_ratio}: remote memory is not "
            "faster than local memory; give 1 or more, or 0 for the calibrated value"
        )
    return Limits(
        node_misses_per_s=agent.node_limit_misses_per_s or found.node_misses_per_s,
        link_misses_per_s=agent.link_limit_misses_per_s or found.link_misses_per_s,
        remote_penalty_ratio=agent.remote_penalty_ratio or found.remote_penalty_ratio,
        curves=found.curves,
    )


@contextlib.contextmanager
def standalone(conf: cfg.ConfigOpts) -> Iterator[Standalone]:
    """Eyes without hands: nothing here can change the host, or makes a folder on it.

    Raises CountersUnavailable, cfg.Error.
    """
    connection = Connection(conf.agent.libvirt_uri, is_read_only=True)
    domains = Domains(connection)
    folder = conf.agent.state_directory
    state = StateFolder(folder) if Path(folder).is_dir() else None
    source: CountersDriver | None = None
    try:
        domains.refresh()  # Without libvirt there is nothing to count: that is to be said first.
        source = counters(conf, connection).driver
        watched = ReadOnlyHost(
            host_name(conf),
            LibvirtGuests(domains, reads_cpu_times=conf.agent.cpu_times),
            source,
            LibvirtJournal(domains),
            limits(conf, state),
        )
        yield Standalone(
            watched, policy_from(conf), state.remembered(time.time()) if state else CoreState()
        )
    finally:
        if source:
            source.close()
        connection.close()


@dataclass(frozen=True, slots=True)
class Built:
    agent: Agent
    control: CommandHandler
    publisher: BusPublisher
    host_info: "HostInfoSource"
    recorder: Recorder
    escalator: Escalator
    usage: UsageSender
    migrations: MigrationHolds
    facts: ToldFacts
    latency: Poller
    monitors: Monitors
    calls_elsewhere: BusOverlayCalls
    monitor_calls: MonitorCalls
    identity: Identity
    """By which all but the answers to calls is sent."""

    def apply_config(self, conf: cfg.ConfigOpts, state: StateFolder) -> None:
        """What the mutable options say now. Raises cfg.Error, and changes nothing then."""
        policy, found = policy_from(conf), limits(conf, state)
        if found != self.agent.limits:
            LOG.info("%s", limits_line(asdict(found)))
        self.agent.apply_config(policy, found, conf.agent.interval_s)
        self.host_info.policy = policy
        self.publisher.apply_config(intervals(conf))


def bus_identity(conf: cfg.ConfigOpts) -> Identity:
    """Whose word an agent takes is in a file: it has no database."""
    return Identity(conf, Process.AGENT, lambda: trusted_keys(conf), host_name(conf))


def intervals(conf: cfg.ConfigOpts) -> Intervals:
    return Intervals(conf.bus.refresh_interval_s, conf.bus.min_publish_interval_s)


def build(
    conf: cfg.ConfigOpts,
    side: LibvirtSide,
    source: CountersDriver,
    state: StateFolder,
    facts: ToldFacts,
    tally: "Tally | None" = None,
) -> Built:
    policy = policy_from(conf)
    host = _own_host(conf, side, source, state)
    control = CommandHandler(state, conf.agent.mode and Mode(conf.agent.mode), facts=facts)
    host_info = HostInfoSource(conf, side, source, control, facts, policy)
    identity = bus_identity(conf)
    publisher = BusPublisher(BusSender(identity), host_info, intervals(conf), host.epoch)
    outbox = Outbox(state.escalations, state.set_escalations, time.monotonic())
    rates = LibvirtDirtyRates(conf.agent.libvirt_uri)
    escalator = Escalator(outbox, BusEscalations(identity), rates, host_info, host.epoch)
    migrations = MigrationHolds(escalator.stands, escalator.ended)
    usage = _usage(conf, identity, state, host.epoch)
    recorder = Recorder(host_name(conf), conf.agent.record_max_mib << 20)
    elsewhere = BusOverlayCalls(identity)
    monitor_calls = MonitorCalls(
        lambda call: control.call_overlay(call, None),
        lambda: control.overlays.by_id,
        elsewhere,
    )
    agent = Agent(
        host,
        control,
        publisher,
        StateKeeper(state),
        policy,
        state.remembered(time.time()),
        recorder,
        Cluster(escalator, migrations, usage),
        tally,
    )
    return Built(
        agent,
        control,
        publisher,
        host_info,
        recorder,
        escalator,
        usage,
        migrations,
        facts,
        Poller(open_sources(conf.agent.latency_sources), control.latency),
        Monitors(
            open_monitors(conf.agent.monitors),
            lambda: control.overlays.by_id,
            side.nics,
            control.last,
            monitor_calls.answer,
        ),
        elsewhere,
        monitor_calls,
        identity,
    )


def _own_host(
    conf: cfg.ConfigOpts, side: LibvirtSide, source: CountersDriver, state: StateFolder
) -> OwnHost:
    earlier_epochs, epoch = state.epochs(), state.next_epoch()
    journal = ReservingJournal(side.journal, epoch, side.unwritten)
    return OwnHost(
        guests=side.guests,
        counters=source,
        memory=side.memory,
        balloon=side.balloon,
        journal=journal,
        executor=Executor(journal, side.actuators, epoch),
        epoch=epoch,
        earlier_epochs=earlier_epochs,
        limits=limits(conf, state),
        may_reserve=side.actuator.name == KERNEL,
    )


def _usage(conf: cfg.ConfigOpts, identity: Identity, state: StateFolder, epoch: int) -> UsageSender:
    return UsageSender(
        UsageLog(state.usage, state.set_usage, epoch),
        BusUsage(identity),
        host_name(conf),
        conf.agent.usage_flush_s,
        conf.bus.usage_interval_s,
    )


class HostInfoSource:
    """What messages say of this host besides the decision, as it is at the moment."""

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        side: LibvirtSide,
        source: CountersDriver,
        control: CommandHandler,
        facts: ToldFacts,
        policy: Policy,
    ) -> None:
        self._host = host_name(conf)
        self._side = side
        self._source = source
        self._control = control
        self._facts = facts
        self.policy = policy

    def __call__(self) -> HostInfo:
        return HostInfo(
            host=self._host,
            counters=self._source.name,
            actuator=self._side.actuator.name,
            is_homing=self._is_homing(),
            serves_classes=any(one.controller.serves_classes for one in self.policy.controllers),
            epoch_offset_s=time.time() - time.monotonic(),
            problems=tuple(f"{who}: {why}" for who, why in self._source.problems().items()),
            stopped_servers=self._side.guests.stopped(),
            hypervisor=self._side.guests.host_name(),
            knobs=self._side.knobs,
            told=self._control.servers.told,
            facts=self._facts.told,
            modes=self._control.mode.now(),
            latency=self._control.latency.known(),
            overlays=self._control.overlays.told,
        )

    def _is_homing(self) -> bool:
        mode = self._control.commanded().mode
        return any(
            one.controller.places_newcomers(mode, one.settings) for one in self.policy.controllers
        )
