# SPDX-License-Identifier: Apache-2.0
"""What a domain's XML says of one guest: who it is for Nova, its bound, why we may not touch it.

Parsing only; called once per change of the XML, not once per tick.
"""

import re
import xml.etree.ElementTree as ET
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import cast

from nova_vp.core.types.guest import Unmanaged
from nova_vp.core.types.knob import NO_QUOTA, Applied, Cpus, Knob, Quota
from nova_vp.cpuset import format_cpus, parse_cpus
from nova_vp.flavor_specs import FlavorSpec, InvalidFlavorSpec, parse
from vp_agent.drivers import journal_entry
from vp_agent.drivers.migration_obstacle import migration_obstacle
from vp_agent.drivers.nics import Nic, nics_in
from vp_agent.drivers.passed_devices import devices_in

_UUID = re.compile(r"[0-9a-fA-F-]{32,36}")
_NOVA = "{http://openstack.org/xmlns/libvirt/nova/1.1}"


@dataclass(frozen=True, slots=True)
class Obstacle:
    """Why a guest is left alone."""

    reason: Unmanaged
    detail: str


@dataclass(frozen=True, slots=True)
class DomainDescription:
    uuid: str
    domain_name: str
    name: str
    project_id: str
    flavor: str
    vcpus: int
    most_vcpus: int
    """That can be plugged in."""
    memory_kib: int
    current_memory_kib: int
    """What its balloon leaves it, as libvirt knows it."""
    has_balloon: bool
    balloon_obstacle: str
    """Why its memory cannot be resized, for people; empty: nothing here says so."""
    allowed_cpus: frozenset[int]
    spec: FlavorSpec
    """What its flavor asks of us; the defaults where that is not valid."""
    obstacle: Obstacle | None
    memory_obstacle: str
    """Why its memory cannot be moved between nodes, for people; empty: nothing here says so."""
    migration_obstacle: str
    """Why Nova cannot, or must not, live-migrate it, in the same way."""
    image: str
    """UUID of the image that it was booted from; empty: from a volume, or nobody says."""
    devices: tuple[str, ...]
    """Passed through to it, as `passed_devices` has them."""
    nics: tuple[Nic, ...]
    pins: tuple[frozenset[int], ...]
    """`<vcpupin>`, in the order written; Nova writes none for the guests that we may place."""
    emulator_pin: frozenset[int] | None
    """`<emulatorpin>`; None: its other threads may go wherever the guest may."""
    io_threads: Mapping[int, frozenset[int] | None]
    """By number of an I/O thread, its `<iothreadpin>`; None: it may go wherever the guest may."""
    quota: Quota
    """What libvirt was told of each vCPU, by Nova or by us."""
    flavor_quota: Quota
    """What the flavor says of it."""
    shares: int | None
    """What libvirt was told of its CPU weight, in the unit of the host; None: nothing."""
    flavor_shares: int | None
    """What the flavor says of it; Nova gives it to libvirt as it is."""
    applied: Applied | None
    """Our journal entry."""


def parse_description(
    domain_xml: str, host_cpus: frozenset[int], told_specs: Mapping[str, str] | None = None
) -> DomainDescription:
    """`host_cpus`: those online. `told_specs`: `vp:` extra specs of its flavor, for a domain that
    has no extra specs: Nova 31 and older do not write them. Raises ValueError for what is no domain
    XML."""
    domain = _root(domain_xml)
    vcpu = domain.find("vcpu")
    if vcpu is None:
        raise ValueError("domain XML without <vcpu>")
    uuid = domain.findtext("uuid", "")
    # A bound of offline CPUs alone bounds nothing; the kernel falls back in the same way.
    allowed = (parse_cpus(vcpu.get("cpuset", "")) & host_cpus) or host_cpus
    nova = domain.find(f"metadata/{_NOVA}instance")
    specs = _extra_specs(nova)
    flavor_quota = _flavor_quota(specs)
    entry = domain.find(f"metadata/{journal_entry.TAG}")
    given = journal_entry.Given(allowed, flavor_quota)
    applied = None if entry is None else journal_entry.parse_entry(entry, uuid, given)
    spec, fault = _flavor_spec(specs if _has_specs(nova) else told_specs or {})
    pins = tuple(parse_cpus(pin.get("cpuset", "")) for pin in domain.iterfind("cputune/vcpupin"))
    emulator = domain.find("cputune/emulatorpin")
    return DomainDescription(
        uuid=uuid,
        domain_name=domain.findtext("name", ""),
        name=_text(nova, f"{_NOVA}name"),
        project_id=_attribute(nova, f"{_NOVA}owner/{_NOVA}project", "uuid"),
        flavor=_attribute(nova, f"{_NOVA}flavor", "name"),
        vcpus=int(vcpu.get("current", vcpu.text or "1")),
        most_vcpus=int(vcpu.text or "1"),
        memory_kib=_memory_kib(domain, "memory"),
        current_memory_kib=_memory_kib(domain, "currentMemory"),
        has_balloon=_has_balloon(domain),
        balloon_obstacle=_balloon_obstacle(domain),
        allowed_cpus=allowed,
        spec=spec,
        obstacle=(
            _stranger(nova)
            or fault
            or _owned_by_nova(domain)
            or _pinned(pins, allowed, applied)
            or _opted_out(spec)
        ),
        memory_obstacle=_memory_obstacle(domain),
        migration_obstacle=migration_obstacle(domain, specs),
        image=_image(nova),
        devices=devices_in(domain),
        nics=nics_in(domain),
        pins=pins,
        emulator_pin=None if emulator is None else parse_cpus(emulator.get("cpuset", "")),
        io_threads=_io_threads(domain),
        quota=_quota(domain.findtext("cputune/quota"), domain.findtext("cputune/period")),
        flavor_quota=flavor_quota,
        shares=_shares(domain.findtext("cputune/shares")),
        flavor_shares=_shares(specs.get("quota:cpu_shares")),
        applied=applied,
    )


def parse_journal(entry_xml: str, about: DomainDescription) -> Applied:
    """What `parse_description` makes of our entry, from what libvirt says of that alone. Raises
    ValueError."""
    given = journal_entry.Given(about.allowed_cpus, about.flavor_quota)
    entry = _root(entry_xml)
    for element in entry.iter():  # libvirt leaves out the namespace that it was asked for.
        element.tag = f"{{{journal_entry.NAMESPACE}}}{element.tag}"
    return journal_entry.parse_entry(entry, about.uuid, given)


def _root(xml: str) -> ET.Element:
    """Raises ValueError."""
    try:
        return ET.fromstring(xml)
    except ET.ParseError as exc:
        raise ValueError(f"that is no XML: {exc}") from exc


def _io_threads(domain: ET.Element) -> Mapping[int, frozenset[int] | None]:
    """`<iothreads>` alone numbers them from 1; libvirt names each once one has another number."""
    named = [int(one.get("id", "0")) for one in domain.iterfind("iothreadids/iothread")]
    pins = {
        int(pin.get("iothread", "0")): parse_cpus(pin.get("cpuset", ""))
        for pin in domain.iterfind("cputune/iothreadpin")
    }
    count = int(domain.findtext("iothreads") or 0)
    return {number: pins.get(number) for number in named or range(1, count + 1)}


def _flavor_quota(specs: Mapping[str, str]) -> Quota:
    """Nova itself writes these numbers into the XML."""
    return _quota(specs.get("quota:cpu_quota"), specs.get("quota:cpu_period"))


def _quota(quota_us: str | None, period_us: str | None) -> Quota:
    """libvirt takes 0 for what was not given, and any negative number for no limit."""
    try:
        quota, period = int(quota_us or 0), int(period_us or 0)
    except ValueError:
        return NO_QUOTA
    return Quota(
        quota if quota > 0 else NO_QUOTA.quota_us, period if period > 0 else NO_QUOTA.period_us
    )


def _shares(text: str | None) -> int | None:
    """None for what libvirt would not take either."""
    try:
        return int(text or 0) or None
    except ValueError:
        return None


def _text(nova: ET.Element | None, path: str) -> str:
    return "" if nova is None else nova.findtext(path, "")


def _attribute(nova: ET.Element | None, path: str, name: str) -> str:
    found = None if nova is None else nova.find(path)
    return "" if found is None else found.get(name, "")


def _image(nova: ET.Element | None) -> str:
    """Of what cannot be one nobody says anything: no receiver would take the report."""
    found = _attribute(nova, f"{_NOVA}root[@type='image']", "uuid")
    return found if _UUID.fullmatch(found) else ""


def _memory_kib(domain: ET.Element, which: str) -> int:
    """The live XML always counts in KiB."""
    return int(domain.findtext(which, "0"))


def _has_balloon(domain: ET.Element) -> bool:
    found = domain.find("devices/memballoon")
    return found is not None and found.get("model", "none") != "none"


def _balloon_obstacle(domain: ET.Element) -> str:
    """What pins its memory keeps a balloon from giving it back."""
    return _memory_obstacle(domain) if _has_balloon(domain) else _NO_BALLOON


def _flavor_spec(specs: Mapping[str, str]) -> tuple[FlavorSpec, Obstacle | None]:
    try:
        return parse(specs), None
    except InvalidFlavorSpec as exc:
        detail = f"{exc}; correct the flavor and resize or rebuild the server"
        return FlavorSpec(), Obstacle(Unmanaged.INVALID_SPEC, detail)


def _has_specs(nova: ET.Element | None) -> bool:
    """Where the flavor has none, newer Nova writes an empty element."""
    return nova is not None and nova.find(f"{_NOVA}flavor/{_NOVA}extraSpecs") is not None


def _extra_specs(nova: ET.Element | None) -> dict[str, str]:
    found = (
        [] if nova is None else nova.iterfind(f"{_NOVA}flavor/{_NOVA}extraSpecs/{_NOVA}extraSpec")
    )
    return {spec.get("name", ""): (spec.text or "").strip() for spec in found}


def _stranger(nova: ET.Element | None) -> Obstacle | None:
    if nova is not None:
        return None
    return Obstacle(Unmanaged.NOT_NOVA, "its libvirt metadata names no Nova server")


def _owned_by_nova(domain: ET.Element) -> Obstacle | None:
    for describe in _NOVAS_OWN:
        obstacle = describe(domain)
        if obstacle is not None:
            return obstacle
    return None


def _realtime(domain: ET.Element) -> Obstacle | None:
    tuned = domain.findall("cputune/vcpusched")
    if not tuned:
        return None
    vcpus = ", ".join(f"{t.get('vcpus', '')} ({t.get('scheduler', '')})" for t in tuned)
    return Obstacle(Unmanaged.REALTIME, f"realtime vCPUs {vcpus}: hw:cpu_realtime")


def _dedicated(domain: ET.Element) -> Obstacle | None:
    """Pins to one CPU each are Nova's even beside floating vCPUs (hw:cpu_policy=mixed)."""
    single = [
        (pin.get("vcpu", ""), pin.get("cpuset", ""))
        for pin in domain.iterfind("cputune/vcpupin")
        if len(parse_cpus(pin.get("cpuset", ""))) == 1
    ]
    if not single or domain.find("numatune") is None or _asks_for_numa_alone(domain):
        return None
    pins = ", ".join(f"vCPU {vcpu} on CPU {cpu}" for vcpu, cpu in single)
    return Obstacle(Unmanaged.DEDICATED_CPUS, f"Nova dedicated CPUs to it: {pins}")


def _asks_for_numa_alone(domain: ET.Element) -> bool:
    """On a NUMA cell of one CPU, Nova's pins of a floating guest look like dedicated ones."""
    specs = _extra_specs(domain.find(f"metadata/{_NOVA}instance"))
    wants_cpus = specs.get("hw:cpu_policy", "shared") != "shared" or "resources:PCPU" in specs
    return "hw:numa_nodes" in specs and not wants_cpus


def _numa(domain: ET.Element) -> Obstacle | None:
    cells = domain.findall("cpu/numa/cell")
    if not cells and domain.find("numatune") is None:
        return None
    detail = f"Nova gave it a NUMA topology (cells: {len(cells)}); CPUs and memory are Nova's"
    return Obstacle(Unmanaged.NUMA_TOPOLOGY, detail)


def _hugepages(domain: ET.Element) -> Obstacle | None:
    if domain.find("memoryBacking/hugepages") is None:
        return None
    return Obstacle(Unmanaged.HUGEPAGES, "its memory is backed by huge pages: hw:mem_page_size")


_NOVAS_OWN: tuple[Callable[[ET.Element], Obstacle | None], ...] = (
    _realtime,
    _dedicated,
    _numa,
    _hugepages,
)


def _memory_obstacle(domain: ET.Element) -> str:
    return "; ".join(why for path, why in _UNMOVABLE if domain.find(path) is not None)


_NO_BALLOON = (
    "it has no virtio balloon: Nova gives none where nova.conf [libvirt] mem_stats_period_seconds "
    "is 0 or less"
)
_VFIO = "a device of the host is passed through to it (VFIO), which pins its memory"
_UNMOVABLE = (
    ("memoryBacking/hugepages", "its memory is backed by huge pages"),
    ("memoryBacking/locked", "its memory is locked (<memoryBacking><locked/>)"),
    ("devices/hostdev[@type='pci']", _VFIO),
    ("devices/hostdev[@type='mdev']", _VFIO),
    ("devices/interface[@type='hostdev']", _VFIO),
    ("devices/interface[@type='vdpa']", "a vDPA network device pins its memory"),
    ("launchSecurity", "its memory is encrypted (<launchSecurity>), so that the kernel pins it"),
)


def _pinned(
    pins: tuple[frozenset[int], ...], allowed: frozenset[int], applied: Applied | None
) -> Obstacle | None:
    """Pins equal to the bound are what an undone pin leaves; those in our journal are ours."""
    held = applied.of(Knob.PLACEMENT) if applied else None
    ours = {allowed, *(cast(Cpus, held.value + held.original) if held else ())}
    foreign = next((pin for pin in pins if pin not in ours), None)
    if foreign is None:
        return None
    return Obstacle(
        Unmanaged.FOREIGN_CHANGE,
        f"a vCPU is pinned to CPUs {format_cpus(foreign)} through libvirt, and not by nova-vp; pin "
        f"it to {format_cpus(allowed)} with `virsh vcpupin`, then nova-vp manages the server again",
    )


def _opted_out(spec: FlavorSpec) -> Obstacle | None:
    if spec.is_managed:
        return None
    return Obstacle(Unmanaged.OPTED_OUT, "its flavor has vp:manage=no")
