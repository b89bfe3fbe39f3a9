# SPDX-License-Identifier: Apache-2.0
"""What an agent reads of guests: domain XML with Nova's metadata and a journal by whatever hand,
the migrate hook, flavors' extra specs, counter files.
"""

import contextlib
import fcntl
import importlib.machinery
import importlib.util
import io
import math
import os
import xml.etree.ElementTree as ET
from functools import cache
from pathlib import Path
from typing import Any
from xml.dom import minidom
from xml.parsers.expat import ExpatError
from xml.sax.saxutils import escape, quoteattr

from nova_vp import controllers, flavor_specs
from nova_vp.core.types.knob import (
    NO_CPU_WEIGHT,
    NO_EMULATOR_WEIGHT,
    WEIGHT_RANGES,
    Applied,
    Held,
    Knob,
    LlcShare,
    MembwShare,
    Quota,
)
from nova_vp.core.types.sample import Reading
from nova_vp.cpuset import parse_cpus
from tests.domain_xml import a_domain, nova_metadata
from tests.fuzz.core import GUESTS, a_host, check_told, live, with_guest
from tests.fuzz.dice import ODD_TEXTS, UUIDS, Dice
from tests.fuzz.oracle import expect, is_finite
from tests.fuzz.subject import ACCEPTED, REFUSED
from tests.vpmu_file import VpmuFile, make_controller
from vp_agent.drivers.base import VcpuThreads
from vp_agent.drivers.counters import CounterSettings
from vp_agent.drivers.counters_vpmu import VpmuCounters
from vp_agent.drivers.domain_xml import DomainDescription, parse_description
from vp_agent.drivers.journal_entry import NEVER
from vp_agent.drivers.resctrl_schemata import Unusable, parse_features, share_of

CPUS = frozenset(range(4))
SPECS = {
    "vp:isolation": "strict",
    "vp:manage": "yes",
    "vp:group": "shop",
    "vp:priority": "2.5",
    "vp:cpu_floor": "50",
    "vp:memory_split": "60,40",
    "vp:expects": "mixed",
    "vp:class": "best-effort",
    "vp:latency_target_ms": "10",
    "vp:latency_percentile": "99.9",
    "vp:max_load": "450000",
    "vp:suspend": "yes",
    "quota:cpu_quota": "50000",
    "quota:cpu_period": "100000",
    "quota:cpu_shares": "2048",
    "hw:cpu_policy": "shared",
}
HELD = (
    {"knob": "placement", "value": "0-1", "original": "0-3"},
    {"knob": "cpu-cap", "value": "50000 100000", "original": "-1 100000", "until": "1234.5"},
    {"knob": "memory", "value": "0:0.5 1:0.5", "original": "0:1.0"},
    {"knob": "cpu-weight", "value": "4096 shares", "original": "1024 shares"},
    {"knob": "llc", "value": "0.25", "original": "1.0"},
    {"knob": "membw", "value": "0.5", "original": "1.0"},
    {"knob": "partition", "value": "0.25 0.5", "original": "1.0 1.0"},
    {"knob": "memory-size", "value": "524288", "original": "1048576"},
    {"knob": "emulator-weight", "value": "200 weight", "original": "100 weight"},
)
SHARES = {Knob.LLC: LlcShare, Knob.MEMBW: MembwShare}
HOOK = Path(__file__).resolve().parents[2] / "vp_agent/hooks/qemu.d/nova-vp"
VALUES = (
    *("0-1", "0", "9999", "0-8191", "^0", "0;1", ";", "1 2", "-1 -1", "0 0", "-5 -7", "1e3 2"),
    *("nan nan", "inf 1", "0:nan", "-1:2", "1:1 1:1", "0:0.5 1:9", "9" * 5000, "9" * 30 + " 1"),
    *("1 0", "50000 0", "50000 -100000", "0:inf", "0:-1", "2.0 0.0", "0.0 1.0", "-inf", "1e400"),
)
TUNE = (
    "<cputune><shares>4096</shares><quota>50000</quota><period>100000</period>"
    "<vcpupin vcpu='0' cpuset='0-1'/><vcpupin vcpu='1' cpuset='0-1'/><emulatorpin cpuset='0-1'/>"
    "</cputune>"
)


def _journal(dice: Dice) -> str:
    held = [dict(one) for one in HELD if dice.is_so(0.6)]
    for one in held:
        if dice.is_so(0.25):
            key = dice.pick(tuple(one))
            one[key] = _told(dice, dice.pick((*VALUES, one[key] + "1", *ODD_TEXTS)))
        if dice.is_so(0.02):
            del one[dice.pick(tuple(one))]
    elements = "".join(
        "<vp:held controller='vp' action='a1' "
        + " ".join(f"{key}={quoteattr(value)}" for key, value in one.items())
        + "/>"
        for one in held
    )
    odd = dice.pick(("0", "-1", "", "9" * 5000, "9" * 4000, "1.5", "x"))
    epoch = odd if dice.is_so(0.15) else "7"
    head = f"<vp:applied xmlns:vp='urn:nova-vp:1' epoch={quoteattr(epoch)}>"
    return f"{head}{elements}</vp:applied>"


def extra_specs(dice: Dice) -> dict[str, str]:
    keys = [key for key in SPECS if dice.is_so(0.4)]
    specs = {key: SPECS[key] for key in keys}
    for key in keys[: dice.randint(0, 2)]:
        value = dice.pick((*ODD_TEXTS, *VALUES, specs[key] + "1", specs[key] * 9, "100", "-1", "0"))
        specs[key] = _told(dice, value)
    if dice.is_so(0.1):
        specs["vp:" + _told(dice, dice.pick(ODD_TEXTS))] = "yes"
    return specs


def _told(dice: Dice, text: str) -> str:
    """As XML can tell it."""
    return "".join(c for c in text if c.isprintable())


class Metadata:
    """All that stands in <metadata>: nobody keeps a stranger from writing there."""

    name, weight = "metadata", 4

    def make(self, dice: Dice) -> Any:
        names = ("name", "flavor", "image")
        texts = {"image": UUIDS[1]} | {
            name: _told(dice, dice.pick(ODD_TEXTS)) for name in names if dice.is_so(0.1)
        }
        root = f"<nova:root type='image' uuid={quoteattr(texts.pop('image'))}/></nova:instance>"
        whole = nova_metadata(extra_specs=extra_specs(dice), **texts)
        nova = whole.replace("</nova:instance>", root) if dice.is_so(0.9) else ""
        tune = TUNE if dice.is_so(0.3) else ""
        return a_domain(uuid=UUIDS[0], cpuset="0-3", metadata=nova + _journal(dice), body=tune)

    def take(self, payload: Any) -> str:
        found = parse_description(payload, CPUS)
        if found.applied:
            check_applied(found.applied)
        check_quota(found.flavor_quota)
        _live_with(found)
        text = payload.encode()
        _check_hook(text)
        return ACCEPTED if found.applied and found.applied.epoch != NEVER else REFUSED

    def settle(self) -> None:
        """Nothing is left."""


class DomainXml:
    """libvirt's own words, damaged: nothing but a ValueError, which the host is told of."""

    name, weight = "domain-xml", 3

    def make(self, dice: Dice) -> Any:
        text = a_domain(uuid=UUIDS[0], metadata=nova_metadata() + _journal(dice), body=TUNE)
        if dice.is_so(0.5):
            at = text.find('"' if dice.is_so(0.5) else ">", dice.randint(0, len(text))) + 1
            return text[:at] + escape(_told(dice, dice.pick((*VALUES, *ODD_TEXTS)))) + text[at:]
        return dice.torn_text(text)

    def take(self, payload: Any) -> str:
        text = payload.encode("utf-8", "surrogatepass")
        _check_hook(text)
        try:
            parse_description(payload, CPUS)
        except ValueError:
            return REFUSED
        return ACCEPTED

    def settle(self) -> None:
        """Nothing is left."""


def check_applied(applied: Applied) -> None:
    """What undo could give back."""
    for held in applied.held:
        expect(held.until_s is None or math.isfinite(held.until_s), f"a lease until {held.until_s}")
        for value in (held.value, held.original):
            _check_value(held, value)


def _check_value(held: Held, value: Any) -> None:
    if held.knob is Knob.CPU_CAP:
        check_quota(value)
    elif held.knob in (Knob.CPU_WEIGHT, Knob.EMULATOR_WEIGHT):
        least, most, _ = WEIGHT_RANGES[value.unit]
        expect(
            value in (NO_CPU_WEIGHT, NO_EMULATOR_WEIGHT) or least <= value.number <= most,
            f"{value}",
        )
    elif held.knob is Knob.MEMORY_SIZE:
        expect(0 <= value.kib < 2**54, f"{value}")
    elif held.knob in SHARES:
        expect(isinstance(value, SHARES[held.knob]) and 0 < value.ratio <= 1, f"{value}")
    elif held.knob is Knob.MEMORY:
        fits = all(node >= 0 and 0 <= share <= 1 for node, share in value)
        expect(fits, f"shares {value}")
    else:
        expect(value and all(value), f"CPUs {value}")


def check_quota(quota: Quota) -> None:
    expect(quota.period_us > 0, f"{quota}")
    expect(quota.quota_us == -1 or quota.quota_us > 0, f"{quota}")
    expect(max(quota) < 10**300, f"{quota}")


def _live_with(found: DomainDescription) -> None:
    fields = ("name", "project_id", "flavor", "image", "memory_obstacle", "migration_obstacle")
    about = {name: getattr(found, name) for name in fields}
    spec = found.spec
    host = with_guest(
        a_host(),
        **about,
        quota=found.flavor_quota,
        isolation=spec.isolation,
        group=spec.group,
        priority=spec.priority,
        cap_floor_ratio=spec.cap_floor_ratio,
        controller_keys=spec.controller_keys,
        service_class=spec.service_class,
        latency_target_ms=spec.latency_target_ms,
        latency_percentile=spec.latency_percentile,
        max_load=spec.max_load,
        may_suspend=spec.may_suspend,
        unmanaged=found.obstacle and found.obstacle.reason,
        unmanaged_detail=found.obstacle.detail if found.obstacle else "",
    )
    if found.applied and found.applied.epoch != NEVER:
        # Others are undone before the core sees them.
        held = tuple(one for one in found.applied.held if one.knob in host.knobs)
        host.applied[GUESTS[0]] = Applied(GUESTS[0], found.applied.epoch, held)
    live(host)


@cache
def _hook() -> Any:
    loader = importlib.machinery.SourceFileLoader("nova_vp_hook", str(HOOK))
    spec = importlib.util.spec_from_loader("nova_vp_hook", loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


def _check_hook(given: bytes) -> None:
    """A guest arrives with XML that is as whole as the one it came with."""
    with contextlib.redirect_stderr(io.StringIO()):  # libvirt's log
        left = _hook().main(["hook", "x", "migrate"], given)
    try:
        minidom.parseString(given)
    except ExpatError:
        expect(left == given, "the hook changed what it cannot read")
        return
    try:
        whole = ET.fromstring(left)
    except ET.ParseError:
        return  # it takes no namespace with a brace in it
    journal = whole.find("metadata/{urn:nova-vp:1}applied")
    said = set() if journal is None else {one.get("knob") for one in journal}
    expect(said <= {"memory-size"} or left == given, "the hook left half of it")


class Specs:
    name, weight = "extra-specs", 3

    def make(self, dice: Dice) -> Any:
        specs = extra_specs(dice)
        if specs and dice.is_so(0.3):
            specs[dice.pick(tuple(specs))] = dice.pick(ODD_TEXTS)
        return specs

    def take(self, payload: Any) -> str:
        faults = [flavor_specs.fault(k, v) for k, v in payload.items() if k.startswith("vp:")]
        faults += flavor_specs.contradictions(payload)
        try:
            spec = flavor_specs.parse(payload)
        except flavor_specs.InvalidFlavorSpec:
            expect(any(faults), "the parser refuses what the validator takes")
            return REFUSED
        expect(not any(faults), f"the parser takes what the validator refuses: {faults}")
        expect(0.1 <= spec.priority <= 10, f"{spec}")
        expect(spec.cap_floor_ratio is None or 0.01 <= spec.cap_floor_ratio <= 1, f"{spec}")
        keys = {key.key: key for key in controllers.flavor_keys()}
        for key, text in spec.controller_keys:
            keys[key].read(text)
        expect(spec.expects is None or 0 <= spec.expects <= 8, f"{spec}")
        expect(len(spec.group) <= 64 and spec.group.isascii(), f"{spec}")
        return ACCEPTED

    def settle(self) -> None:
        """Nothing is left."""


class VpmuFiles:
    """Shared with QEMU, whose user may write anything there."""

    name, weight = "vpmu-files", 2

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "vpmu"
        self._folder.mkdir()
        made = self._folder / "vm.guest"
        VpmuFile(made, 2).die()
        self._good = made.read_bytes()
        made.unlink()
        make_controller(self._folder, 0, 10**6)
        self._controller = (self._folder / "mc.0").read_bytes()[:64]

    def make(self, dice: Dice) -> Any:
        files = []
        for _ in range(2):
            data = bytearray(self._good)
            for slot in range(len(data) - 512, len(data), 256):
                for field in range(0, 48, 8):
                    most = dice.pick((2**64 - 1, 10**9, 10**6, 1))
                    data[slot + field : slot + field + 8] = dice.randint(0, most).to_bytes(
                        8, "little"
                    )
            whole = bytes(data)
            head = dice.torn(whole[:64]) if dice.is_so(0.2) else whole[:64]
            files.append(head + whole[64:] if dice.is_so(0.9) else dice.torn(whole))
        return [*files, dice.torn(self._controller) if dice.is_so(0.5) else self._controller]

    def take(self, payload: Any) -> str:
        *files, controller = payload
        (self._folder / "mc.0").write_bytes(controller)
        guest = VcpuThreads(GUESTS[0], "guest", os.getpid(), (1, 2), "1")
        settings = CounterSettings(lambda: None, self._folder)  # type: ignore[arg-type,return-value]
        counters, host, is_read = VpmuCounters(settings), a_host(), False
        try:
            for data in files:
                made = self._folder / "vm.guest"
                made.write_bytes(data)
                with made.open() as qemu:
                    fcntl.flock(qemu, fcntl.LOCK_EX)
                    readings = counters.read([guest])
                expect(readings or counters.problems(), "neither a reading nor a problem")
                limit = counters.node_lines_per_s()
                expect(limit is None or 0 < limit < 2**64, f"{limit} lines per second")
                is_read = bool(readings) or is_read
                _count(host, readings.get(GUESTS[0]))
                check_told(host.tick())
            live(host)
        finally:
            counters.close()
        return ACCEPTED if is_read else REFUSED

    def settle(self) -> None:
        """Nothing is left."""


def _count(host: Any, reading: Reading | None) -> None:
    if reading is None:
        host.counts.pop(GUESTS[0], None)
        host.rates.pop(GUESTS[0], None)
        return
    counts = (reading.instructions, reading.cycles, reading.llc_references, reading.llc_misses)
    expect(all(type(one) is int and one >= 0 for one in counts), f"{reading}")
    expect(is_finite(reading.running_ratio), f"{reading}")
    host.rates.pop(GUESTS[0], None)
    host.counts[GUESTS[0]] = reading


RESCTRL = {
    "schemata": "L3:0=fffff;1=fffff\nMB:0=100;1=100\n",
    "info/L3/cbm_mask": "fffff\n",
    "info/L3/min_cbm_bits": "1\n",
    "info/L3/shareable_bits": "c0000\n",
    "info/L3/num_closids": "4\n",
    "info/MB/bandwidth_gran": "10\n",
    "info/MB/min_bandwidth": "10\n",
    "info/MB/num_closids": "8\n",
}


class KernelFiles:
    """The kernel writes these; another one, or a container, may write them otherwise."""

    name, weight = "kernel-files", 2

    def make(self, dice: Dice) -> Any:
        files = dict(RESCTRL)
        for _ in range(dice.randint(0, 2)):
            name = dice.pick(tuple(files))
            files[name] = dice.pick((dice.torn_text(files[name]), dice.pick((*VALUES, *ODD_TEXTS))))
        if dice.is_so(0.1):
            del files[dice.pick(tuple(files))]
        group, cpus = RESCTRL["schemata"], "0-3,8,^2"
        if dice.is_so(0.3):
            group = dice.torn_text(group)
        if dice.is_so(0.3):
            cpus = dice.pick((*VALUES, *ODD_TEXTS, dice.torn_text(cpus)))
        return [files, group, cpus]

    def take(self, payload: Any) -> str:
        files, group, cpus = payload
        outcome = ACCEPTED
        try:
            features = parse_features(lambda path: _read(files, path))
            if features.cache:
                expect(0 < features.cache.ways <= 64, f"{features}")
            if features.bandwidth:
                expect(features.bandwidth.step_percent > 0, f"{features}")
            found = [share_of(group, knob, features).ratio for knob in SHARES]
            expect(all(map(is_finite, found)), f"{found}")
        except (Unusable, ValueError):
            outcome = REFUSED
        try:
            expect(max(parse_cpus(cpus), default=0) < 10_000, f"{cpus}")
        except ValueError:
            outcome = REFUSED
        return outcome

    def settle(self) -> None:
        """Nothing is left."""


def _read(files: dict[str, str], path: str) -> str:
    if path not in files:
        raise FileNotFoundError(path)
    return files[path]
