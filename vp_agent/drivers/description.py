# SPDX-License-Identifier: Apache-2.0
"""What a domain's XML says of one guest: who it is for Nova, its bound, why we may not touch it.

Parsing only; called once per change of the XML, not once per tick.
"""

import xml.etree.ElementTree as ET
from collections.abc import Callable
from dataclasses import dataclass

from nova_vp.core.model import Applied, Isolation, Unmanaged
from nova_vp.flavor_specs import FlavorSpec, InvalidFlavorSpec, parse
from vp_agent.drivers import journal_entry
from vp_agent.drivers.cpuset import format_cpus, parse_cpus

_NOVA = "{http://openstack.org/xmlns/libvirt/nova/1.1}"


@dataclass(frozen=True, slots=True)
class Obstacle:
    """Why a guest is left alone."""

    reason: Unmanaged
    detail: str


@dataclass(frozen=True, slots=True)
class Description:
    uuid: str
    domain_name: str
    name: str
    project_id: str
    flavor: str
    vcpus: int
    memory_kib: int
    allowed_cpus: frozenset[int]
    isolation: Isolation
    obstacle: Obstacle | None
    pins: tuple[frozenset[int], ...]
    """`<vcpupin>`, in the order written; Nova writes none for the guests that we may place."""
    applied: Applied | None
    """Our journal entry."""


def parse_description(domain_xml: str, host_cpus: frozenset[int]) -> Description:
    """`host_cpus`: those online. Raises ValueError for what is no domain XML."""
    domain = ET.fromstring(domain_xml)
    vcpu = domain.find("vcpu")
    if vcpu is None:
        raise ValueError("domain XML without <vcpu>")
    uuid = domain.findtext("uuid", "")
    # A bound of offline CPUs alone bounds nothing; the kernel falls back in the same way.
    allowed = (parse_cpus(vcpu.get("cpuset", "")) & host_cpus) or host_cpus
    entry = domain.find(f"metadata/{journal_entry.TAG}")
    applied = None if entry is None else journal_entry.parse_entry(entry, uuid, allowed)
    nova = domain.find(f"metadata/{_NOVA}instance")
    spec, fault = _flavor_spec(nova)
    pins = tuple(parse_cpus(pin.get("cpuset", "")) for pin in domain.iterfind("cputune/vcpupin"))
    return Description(
        uuid=uuid,
        domain_name=domain.findtext("name", ""),
        name=_text(nova, f"{_NOVA}name"),
        project_id=_attribute(nova, f"{_NOVA}owner/{_NOVA}project", "uuid"),
        flavor=_attribute(nova, f"{_NOVA}flavor", "name"),
        vcpus=int(vcpu.get("current", vcpu.text or "1")),
        memory_kib=_memory_kib(domain),
        allowed_cpus=allowed,
        isolation=spec.isolation,
        obstacle=(
            _stranger(nova)
            or fault
            or _owned_by_nova(domain)
            or _pinned(pins, allowed, applied)
            or _opted_out(spec)
        ),
        pins=pins,
        applied=applied,
    )


def _text(nova: ET.Element | None, path: str) -> str:
    return "" if nova is None else nova.findtext(path, "")


def _attribute(nova: ET.Element | None, path: str, name: str) -> str:
    found = None if nova is None else nova.find(path)
    return "" if found is None else found.get(name, "")


def _memory_kib(domain: ET.Element) -> int:
    """The live XML always counts in KiB."""
    return int(domain.findtext("memory", "0"))


def _flavor_spec(nova: ET.Element | None) -> tuple[FlavorSpec, Obstacle | None]:
    try:
        return parse(_extra_specs(nova)), None
    except InvalidFlavorSpec as exc:
        detail = f"{exc}; correct the flavor and resize or rebuild the server"
        return FlavorSpec(), Obstacle(Unmanaged.INVALID_SPEC, detail)


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


def _pinned(
    pins: tuple[frozenset[int], ...], allowed: frozenset[int], applied: Applied | None
) -> Obstacle | None:
    """Pins equal to the bound are what an undone pin leaves; those in our journal are ours."""
    ours = {allowed} if applied is None else {allowed, applied.cpus, applied.original_cpus}
    foreign = next((pin for pin in pins if pin not in ours), None)
    if foreign is None:
        return None
    return Obstacle(
        Unmanaged.FOREIGN_CHANGE,
        f"somebody pinned a vCPU to CPUs {format_cpus(foreign)} through libvirt; "
        f"`virsh vcpupin` it to {format_cpus(allowed)} to hand it back",
    )


def _opted_out(spec: FlavorSpec) -> Obstacle | None:
    if spec.is_managed:
        return None
    return Obstacle(Unmanaged.OPTED_OUT, "its flavor says vp:manage=no")
