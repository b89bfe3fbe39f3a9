# SPDX-License-Identifier: Apache-2.0
"""A placement from a file and to one: for every VM of a mix its CPUs, memory by node, CPU cap.

YAML or JSON. Every error says where it is and what is allowed.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from nova_vp.core.types.knob import Shares
from nova_vp.core.types.topology import Topology
from nova_vp.cpuset import format_cpus, parse_cpus
from vp_sim.filecheck import fault
from vp_sim.mixes import Member, Mix
from vp_sim.mixschema import MOST_VMS
from vp_sim.mixtext import Unreadable, read_plain
from vp_sim.placement import UNCAPPED, Placement, VmPlace

T = TypeVar("T", int, str)
PERCENT = 100
TOLERANCE_PERCENT = 0.1
"""By which percentages of memory may miss 100 in all."""
DIGITS = 4
WHERE = ("node", "llc", "cpus")
NO_PLACEMENT = "not a placement: start with `applications: {NAME-1: {node: 0}}`"
_VM = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "node": {"type": "integer", "minimum": 0},
        "llc": {"type": "integer", "minimum": 0},
        "cpus": {"type": ["string", "integer"], "minimum": 0},
        "memory_percent": {
            "type": "object",
            "minProperties": 1,
            "additionalProperties": {"type": "number", "minimum": 0, "maximum": PERCENT},
        },
        "cap_percent": {"type": "number", "minimum": 1, "maximum": PERCENT},
    },
}
SCHEMA = {
    "type": "object",
    "additionalProperties": False,
    "required": ["applications"],
    "properties": {
        "applications": {
            "type": "object",
            "additionalProperties": {
                "if": {"type": "array"},
                "then": {"type": "array", "minItems": 1, "maxItems": MOST_VMS, "items": _VM},
                "else": _VM,
            },
        },
    },
}


class BadPlacement(Exception):
    """The message says which file, where in it, and what is allowed."""


def read_placement(path: Path, mix: Mix) -> Placement:
    """Of every VM of the mix. Raises BadPlacement."""
    try:
        content = read_plain(path)
    except OSError as exc:
        raise BadPlacement(f"{path}: {exc.strerror}; give a YAML or JSON file") from None
    except Unreadable as exc:
        raise BadPlacement(f"{path}: {exc}") from None
    wrong = fault(SCHEMA, content, NO_PLACEMENT)
    if wrong:
        raise BadPlacement(f"{path}: {wrong}")
    try:
        placement = _placement(content["applications"], mix)
        _check_room(placement, mix)
    except ValueError as exc:
        raise BadPlacement(f"{path}: {exc}") from None
    return placement


def _placement(given: Mapping[Any, Any], mix: Mix) -> Placement:
    members = {member.label: member for member in mix.members}
    known = f"{mix.name} has {', '.join(members)}"
    for label in given:
        if label not in members:
            raise ValueError(f"applications: {label!r:.80} is not in the mix; {known}")
    for label in members:
        if label not in given:
            raise ValueError(f"applications: {label} is missing: add where it runs")
    topology = mix.shape.topology()
    return {label: _places(given[label], member, topology) for label, member in members.items()}


def _places(given: Any, member: Member, topology: Topology) -> tuple[VmPlace, ...]:
    at = f"applications/{member.label}"
    vms = member.row.guests
    if not isinstance(given, list):
        return (_place(given, at, topology),) * vms
    if len(given) != vms:
        raise ValueError(f"{at}: {len(given)} VMs are listed and it has {vms}: list {vms}")
    return tuple(_place(one, f"{at}/{number}", topology) for number, one in enumerate(given))


def _place(given: Mapping[str, Any], at: str, topology: Topology) -> VmPlace:
    cpus = _cpus(given, at, topology)
    return VmPlace(
        cpus=cpus,
        memory=_memory(given, cpus, at, topology),
        cap_ratio=given.get("cap_percent", PERCENT) / PERCENT,
    )


def _cpus(given: Mapping[str, Any], at: str, topology: Topology) -> frozenset[int]:
    said = [key for key in WHERE if key in given]
    if len(said) != 1:
        found = " and ".join(said) or "none of them"
        raise ValueError(f"{at}: give one of {', '.join(WHERE)}; here is {found}")
    (key,) = said
    if key == "cpus":
        return _listed(str(given[key]), f"{at}/cpus", topology)
    groups: dict[int, frozenset[int]] = {}
    for domain in topology.domains:
        number = domain.node if key == "node" else domain.id
        groups[number] = groups.get(number, frozenset()) | domain.cpus
    return groups[_known(given[key], groups, f"{at}/{key}")]


def _listed(text: str, at: str, topology: Topology) -> frozenset[int]:
    try:
        cpus = parse_cpus(text)
    except ValueError as exc:
        raise ValueError(f"{at}: {exc}") from None
    if not cpus or not cpus <= topology.cpus:
        raise ValueError(
            f"{at}: {text!r:.80} are not CPUs of the machine: use some of "
            f"{format_cpus(topology.cpus)}"
        )
    return cpus


def _memory(given: Mapping[str, Any], cpus: frozenset[int], at: str, topology: Topology) -> Shares:
    nodes = sorted({domain.node for domain in topology.domains if domain.cpus & cpus})
    split = given.get("memory_percent")
    if split is None:
        if len(nodes) > 1:
            raise ValueError(
                f"{at}: its CPUs are on nodes {', '.join(map(str, nodes))}: add memory_percent"
            )
        return ((nodes[0], 1.0),)
    at = f"{at}/memory_percent"
    # A key is a number in YAML and a text in JSON.
    number_of = {str(node): node for node in topology.nodes}
    percent = {number_of[_known(str(key), number_of, at)]: share for key, share in split.items()}
    whole = sum(percent.values())
    if abs(whole - PERCENT) > TOLERANCE_PERCENT:
        raise ValueError(f"{at}: the shares add up to {whole:g}: make it {PERCENT}")
    return tuple((node, share / whole) for node, share in sorted(percent.items()) if share)


def _known(number: T, among: Iterable[T], at: str) -> T:
    if number not in among:
        known = ", ".join(map(str, among))
        raise ValueError(f"{at}: the machine has no {number}: use one of {known}")
    return number


def _check_room(placement: Placement, mix: Mix) -> None:
    lying = dict.fromkeys(mix.shape.topology().nodes, 0.0)
    for member in mix.members:
        for place in placement[member.label]:
            for node, share in place.memory:
                lying[node] += share * member.row.memory_mib.value
    room = mix.hardware.node_mib.value
    for node, mib in lying.items():
        if mib > room:
            raise ValueError(
                f"applications: {mib:.0f} MiB are placed on node {node}, which has {room:.0f} MiB: "
                "put some of it on other nodes"
            )


def as_text(placement: Placement) -> str:
    """JSON that `read_placement` reads back, a line for each application."""
    lines = [
        f"    {json.dumps(label)}: {json.dumps(_written(places))}"
        for label, places in sorted(placement.items())
    ]
    return '{\n  "applications": {\n' + ",\n".join(lines) + "\n  }\n}\n"


def _written(places: Sequence[VmPlace]) -> object:
    vms = [_vm(place) for place in places]
    return vms[0] if len(vms) == 1 else vms


def _vm(place: VmPlace) -> dict[str, object]:
    written: dict[str, object] = {
        "cpus": format_cpus(place.cpus),
        "memory_percent": {
            str(node): round(PERCENT * share, DIGITS) for node, share in place.memory
        },
    }
    if place.cap_ratio < UNCAPPED:
        written["cap_percent"] = round(PERCENT * place.cap_ratio, DIGITS)
    return written
