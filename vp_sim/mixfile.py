# SPDX-License-Identifier: Apache-2.0
"""A mix from a file: applications of the table or of the operator's own, on a machine of theirs.

YAML or JSON (which is YAML). Every error says where it is and what is allowed; figures that the
model cannot compute with are refused.
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from nova_vp import controllers, flavor_specs
from vp_sim.app_profiles import ROWS
from vp_sim.apps import Row
from vp_sim.filecheck import OF_A_NAME, fault
from vp_sim.machine import THESIS_SHAPE, WESTMERE, Hardware, Private, Shape
from vp_sim.mixes import MIXES, Fill, Member, Memory, Mix
from vp_sim.mixschema import APPLICATION, MOST_CPUS, MOST_EXTENTS, MOST_VMS, SCHEMA, SHAPE
from vp_sim.mixtext import Unreadable, read_plain
from vp_sim.parameters import Parameter
from vp_sim.queues import QueueForm
from vp_sim.random_mix import PREFIX, any_mix

NO_MIX = "not a mix: start with `applications: [{app: NAME}]`; `vp-sim apps` lists the names"


class BadMix(Exception):
    """The message says which mix or file, where in it, and what is allowed."""


def find_mix(name: str) -> Mix:
    """A published mix by name, a random one by seed, or one from a file. Raises BadMix."""
    if name in MIXES:
        return MIXES[name]
    if not name.startswith(PREFIX):
        return read_mix(Path(name))
    seed = name.removeprefix(PREFIX)
    if not re.fullmatch(r"[0-9]{1,18}", seed):
        raise BadMix(f"{name}: the seed of a random mix must be a whole number, as in {PREFIX}7")
    return any_mix(int(seed))


def read_mix(path: Path) -> Mix:
    try:
        content = read_plain(path)
    except OSError as exc:
        known = ", ".join(MIXES)
        raise BadMix(
            f"{path}: {exc.strerror}; give a file, {PREFIX}SEED or one of {known}"
        ) from None
    except Unreadable as exc:
        raise BadMix(f"{path}: {exc}") from None
    wrong = fault(SCHEMA, content, NO_MIX)
    if wrong:
        raise BadMix(f"{path}: {wrong}")
    return _mix(content, path)


def _mix(content: Mapping[str, Any], path: Path) -> Mix:
    machine = content.get("machine", {})
    for entry in content["applications"]:
        _check_keys(entry, path)
    members = tuple(member for entry in content["applications"] for member in _members(entry))
    labels = [member.label for member in members]
    twice = sorted({label for label in labels if labels.count(label) > 1})
    if twice:
        raise BadMix(
            f"{path}: two applications are named {twice[0]!r}: give one of them another `name`"
        )
    mix = Mix(
        name=content.get("name", re.sub(rf"[^{OF_A_NAME}]", "_", path.stem)),
        members=members,
        shape=_shape(machine),
        hardware=_hardware(machine),
        fill=Fill(content.get("fill", Fill.SEQUENTIAL.value)),
        memory=Memory(content.get("memory", Memory.AVAILABLE.value)),
    )
    _check_size(mix, path)
    _check_room(mix, path)
    for member in mix.members:
        _check_member(member, mix.shape, path)
    return mix


def _members(entry: Mapping[str, Any]) -> list[Member]:
    row = _row(entry)
    name = entry.get("name", row.name)
    return [
        Member(
            label=f"{name}-{number}",
            row=row,
            priority=entry.get("priority", 1.0),
            initial_cores=entry.get("initial_cores"),
            controller_keys=tuple(sorted(entry.get("extra_specs", {}).items())),
        )
        for number in range(1, entry.get("count", 1) + 1)
    ]


def _check_keys(entry: Mapping[str, Any], path: Path) -> None:
    """Of controllers alone: a mix has other fields for what else a flavor says."""
    known = [key.key for key in controllers.flavor_keys()]
    for key, value in entry.get("extra_specs", {}).items():
        if key not in known:
            raise BadMix(
                f"{path}: {key[:80]!r} is not a flavor key of an installed controller: use one of "
                f"{', '.join(known) or 'none'}"
            )
        fault = flavor_specs.fault(key, value)
        if fault:
            raise BadMix(f"{path}: {fault}")


def _row(entry: Mapping[str, Any]) -> Row:
    """The table's, with what the file says otherwise, under the entry's name: worlds know figures
    by the row's name, and two entries may be made of one row."""
    row = ROWS[entry["app"]]
    values = {name: getattr(row, name) for name in row.__dataclass_fields__}
    given = {k: _given(v) for k, v in entry.items() if k in APPLICATION}
    sizes = {key: entry[key] for key in ("vcpus", "guests") if key in entry}
    values["name"] = entry.get("name", row.name)
    return Row(**{**values, **given, **sizes})


def _given(value: float) -> Parameter:
    return Parameter(float(value), "given: in the mix's file", float(value), float(value))


def _shape(machine: Mapping[str, Any]) -> Shape:
    if not machine.keys() & SHAPE.keys():
        return THESIS_SHAPE
    return Shape(
        nodes=machine.get("nodes", 1),
        domains_per_node=machine.get("domains_per_node", 1),
        cores_per_domain=machine.get("cores_per_domain", 8),
        private=Private(machine.get("private", Private.L2.value)),
        threads_per_core=machine.get("threads_per_core", 1),
    )


def _hardware(machine: Mapping[str, Any]) -> Hardware:
    figures = WESTMERE.figures()
    given = {name: _given(value) for name, value in machine.items() if name in figures}
    form = QueueForm(machine.get("queue_form", WESTMERE.queue_form.value))
    return replace(WESTMERE, queue_form=form, **given)


def _check_size(mix: Mix, path: Path) -> None:
    """Before anything is made of it: a topology of so many CPUs would take the memory of this
    machine."""
    shape = mix.shape
    cpus = shape.nodes * shape.domains_per_node * shape.cores_per_domain * shape.threads_per_core
    if cpus > MOST_CPUS:
        raise BadMix(f"{path}: the machine has {cpus} CPUs: use at most {MOST_CPUS}")
    vms = sum(member.row.guests for member in mix.members)
    if vms > MOST_VMS:
        raise BadMix(f"{path}: the mix has {vms} VMs: use at most {MOST_VMS}")
    extent_mib = mix.hardware.memory_extent_mib.value
    extents = sum(m.row.memory_mib.value * m.row.guests for m in mix.members) / extent_mib
    if mix.memory is Memory.AVAILABLE and extents > MOST_EXTENTS:
        raise BadMix(
            f"{path}: the VMs have {extents:.0f} extents of {extent_mib:g} MiB: increase "
            f"`memory_extent_mib`, for at most {MOST_EXTENTS}"
        )


def _check_room(mix: Mix, path: Path) -> None:
    topology = mix.shape.topology()
    needed = sum(m.row.memory_mib.value * m.row.guests for m in mix.members)
    room = mix.hardware.node_mib.value * len(topology.nodes)
    if needed > room:
        raise BadMix(
            f"{path}: the VMs need {needed:.0f} MiB and the machine has {room:.0f} MiB: "
            "increase `nodes` or `node_mib`, or use fewer applications"
        )


def _check_member(member: Member, shape: Shape, path: Path) -> None:
    topology, row = shape.topology(), member.row
    if row.vcpus > len(topology.cpus):
        raise BadMix(
            f"{path}: {member.label} has {row.vcpus} vCPUs and the machine "
            f"has {len(topology.cpus)} CPUs: reduce `vcpus`"
        )
    together = len(topology.domains[0].cpus)
    if (member.initial_cores or 0) > together:
        raise BadMix(
            f"{path}: {member.label} has {member.initial_cores} initial_cores and an LLC domain "
            f"has {together} CPUs: reduce `initial_cores`"
        )
    least, full = row.least_ratio.value, row.full_ratio.value
    if least > full:
        raise BadMix(
            f"{path}: {member.label} has a least_ratio of {least:g} above its full_ratio of "
            f"{full:g}: the former is with all of the LLC, the latter with nothing of it"
        )
