# SPDX-License-Identifier: Apache-2.0
"""`<vcpupin>`, `<emulatorpin>` and `<iothreadpin>` of a guest: set through libvirt, or neutral.

libvirt has no call that takes a pin out of the XML again: a pin equal to the guest's own bound is
the nearest to none. Both actuators undo with this, since pins may have come by a migration.
"""

from typing import Any

import libvirt

from nova_vp.core.types.knob import Cpus, all_cpus
from vp_agent.drivers.domain_xml import DomainDescription
from vp_agent.drivers.domains import Domains

LIVE = libvirt.VIR_DOMAIN_AFFECT_LIVE
CONFIG = libvirt.VIR_DOMAIN_AFFECT_CONFIG


def pin(domains: Domains, about: DomainDescription, cpus: Cpus, emulator: frozenset[int]) -> None:
    """The vCPUs onto one set, or each onto its own; the other threads onto `emulator`.

    Raises GuestGone, ApplyFailed, HostUnavailable."""
    maps = [_map(domains, one) for one in (cpus * about.vcpus if len(cpus) == 1 else cpus)]

    def act(domain: Any) -> None:
        for vcpu, cpu_map in enumerate(maps):
            domain.pinVcpuFlags(vcpu, cpu_map, LIVE)
        _pin_others(domain, about, _map(domains, emulator), LIVE)

    domains.connection.change(about.uuid, act)


def _map(domains: Domains, cpus: frozenset[int]) -> tuple[bool, ...]:
    return tuple(cpu in cpus for cpu in range(max(domains.topology().cpus) + 1))


def _pin_others(
    domain: Any, about: DomainDescription, cpu_map: tuple[bool, ...], where: int
) -> None:
    if may_move(about, about.emulator_pin):
        domain.pinEmulator(cpu_map, where)
    for number, pinned in about.io_threads.items():
        if may_move(about, pinned):
            domain.pinIOThread(number, cpu_map, where)


def may_move(about: DomainDescription, pin: frozenset[int] | None) -> bool:
    """Threads other than those of vCPUs, unless somebody pinned them elsewhere; our own pin goes
    where the vCPUs are."""
    return pin in (None, about.allowed_cpus, all_cpus(about.pins))


def may_move_others(about: DomainDescription) -> bool:
    """All of them."""
    return all(may_move(about, pin) for pin in (about.emulator_pin, *about.io_threads.values()))


def neutralise(domains: Domains, uuid: str) -> None:
    """Whatever pins there are, live and left over in the persistent XML, onto Nova's bound."""
    domain = domains.find(uuid)
    if _narrows(domain.description):
        _unpin(domains, domain.description, LIVE)
    if domain.leftover and _narrows(domain.leftover):
        _unpin(domains, domain.leftover, CONFIG)


def _unpin(domains: Domains, about: DomainDescription, where: int) -> None:
    """The other threads first: a pin of theirs is known as ours by those of the vCPUs."""
    bound = _map(domains, about.allowed_cpus)

    def act(domain: Any) -> None:
        if about.emulator_pin or any(about.io_threads.values()):
            _pin_others(domain, about, bound, where)
        for vcpu in range(about.vcpus):
            domain.pinVcpuFlags(vcpu, bound, where)

    domains.connection.change(about.uuid, act)


def _narrows(about: DomainDescription) -> bool:
    return any(cpus != about.allowed_cpus for cpus in about.pins)
