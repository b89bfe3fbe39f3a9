# SPDX-License-Identifier: Apache-2.0
"""`vp-agent check`: every unmet requirement of this host at once, each with its correction.

It looks with the agent's own drivers, and changes nothing. As the user that asks: what the agent's
user may, that user must be asked.
"""

import json
import logging
import os
import pwd
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from oslo_config import cfg

from nova_vp.conf.policy import policy_from
from vp_agent import wiring
from vp_agent.checks import host, prerequisites, settings
from vp_agent.checks.finding import Finding, Level, Looks, looked
from vp_agent.cli import check_cpu
from vp_agent.drivers.cache_partition import open_partition
from vp_agent.drivers.capabilities import CAP_DAC_OVERRIDE, CAP_SYS_NICE, CAP_SYS_PTRACE
from vp_agent.drivers.domains import Domains
from vp_agent.loop.control_socket import RunFolder

EXIT = {Level.OK: 0, Level.WARNING: 1, Level.FAILURE: 2}
NOVA = Path("/etc/nova")
TABLE, JSON = "table", "json"
_WIDTH = 100
_COLUMNS = "{:<8} {:<16} "


def add_arguments(command: Any) -> None:
    command.add_argument(
        "-f", "--format", choices=[TABLE, JSON], default=TABLE, help="Output format"
    )
    command.add_argument(
        "--json", dest="format", action="store_const", const=JSON, help="The same as -f json"
    )
    command.add_argument(
        "--cpu",
        type=Path,
        metavar="FILE",
        help="Print which events are counted on the CPU of this /proc/cpuinfo, or of these "
        "identification registers (`cpuid -r`, MIDR_EL1), instead of checking this host",
    )


def run(conf: cfg.ConfigOpts) -> int:
    if conf.command.cpu:
        return check_cpu.run(conf.command.cpu, as_json=conf.command.format == JSON)
    logging.disable()  # What is wrong is told once, and with its mend.
    found = tuple(findings(conf))
    print(as_json(found) if conf.command.format == JSON else as_table(found))
    return EXIT[worst(found)]


def findings(conf: cfg.ConfigOpts) -> Iterator[Finding]:
    for name, look in _of_files(conf).items():
        yield from looked(name, look)
    try:
        side = wiring.libvirt_side(conf, undoes_only=True)
    except (cfg.Error, wiring.UnknownActuator) as exc:
        yield Finding(
            "drivers",
            Level.FAILURE,
            str(exc),
            "correct this, then check again; the other checks need it",
        )
        return
    try:
        for name, look in _of_host(conf, side).items():
            yield from looked(name, look)
        libvirt = tuple(looked("libvirt", lambda: host.libvirt(side.connection)))
        yield from libvirt
        if worst(libvirt) is Level.OK:  # Otherwise they would say the same again.
            for name, look in _of_servers(conf, side).items():
                yield from looked(name, look)
    finally:
        side.close()


def _of_files(conf: cfg.ConfigOpts) -> dict[str, Looks]:
    return {
        "configuration": lambda: settings.configuration(conf),
        "host name": lambda: settings.host_name(conf, NOVA),
        "folders": lambda: prerequisites.folders(conf),
        "calibration": lambda: prerequisites.calibration(conf),
        "agent": lambda: prerequisites.running_agent(RunFolder(conf.agent.run_directory)),
        "release timer": host.release_timer,
        "clock": host.clock,
        "cgroups": prerequisites.cgroup,
        "keys": lambda: prerequisites.keys(conf),
        "bus": lambda: prerequisites.bus(conf),
    }


def _of_host(conf: cfg.ConfigOpts, side: wiring.LibvirtSide) -> dict[str, Looks]:
    travels = conf.agent.actuator == "libvirt"
    return {
        "migrate hook": lambda: host.migrate_hook(is_needed=travels),
        "counters": lambda: prerequisites.counters(
            lambda: wiring.counters(conf, side.connection), side.guests
        ),
        "rights": lambda: prerequisites.rights(conf, _helpers()),
        "monitors": lambda: prerequisites.monitors(conf),
        "cache partitions": lambda: prerequisites.partition(
            open_partition(conf.agent.partition, Domains(side.connection)).why_not
        ),
    }


def _of_servers(conf: cfg.ConfigOpts, side: wiring.LibvirtSide) -> dict[str, Looks]:
    def memory() -> Iterator[Finding]:
        nodes = len(side.guests.topology().nodes)
        return prerequisites.memory(conf, nodes, _helpers()[CAP_SYS_PTRACE])

    return {
        "servers": lambda: host.servers(side.guests),
        "caches": lambda: host.caches(side.guests),
        "islands": lambda: host.islands(side.guests, policy_from(conf)),
        "Nova's CPUs": lambda: settings.novas_cpus(NOVA, side.guests.topology()),
        "memory moves": memory,
    }


def _helpers() -> dict[int, str]:
    """By capability, the command that starts a helper which has it."""
    from vp_agent import privsep  # Late: it brings oslo.privsep, and with it these options.

    contexts = {
        CAP_SYS_NICE: privsep.sys_nice,
        CAP_DAC_OVERRIDE: privsep.dac_override,
        CAP_SYS_PTRACE: privsep.sys_ptrace,
    }
    return {number: str(one.conf.helper_command or "") for number, one in contexts.items()}


def worst(found: Iterable[Finding]) -> Level:
    return max((one.level for one in found), key=EXIT.__getitem__, default=Level.OK)


def as_json(found: Iterable[Finding]) -> str:
    rows = [one._asdict() | {"level": one.level.value} for one in found]
    return json.dumps({"user": _user(), "level": worst(found).value, "checks": rows}, indent=2)


def as_table(found: Iterable[Finding]) -> str:
    """The worst first; those that are well last, a line each."""
    ordered = sorted(found, key=lambda one: -EXIT[one.level])
    lines = [line for one in ordered for line in _lines(one)]
    counts = Counter(one.level for one in ordered)
    told = f"failures: {counts[Level.FAILURE]}, warnings: {counts[Level.WARNING]}"
    return "\n".join([*lines, f"{told}; checked as user {_user()}"])


def _lines(one: Finding) -> Iterator[str]:
    start = _COLUMNS.format(one.level.value, one.name)
    indent = " " * len(start)
    yield _wrapped(one.told, start, indent)
    if one.mend:
        yield _wrapped(one.mend, f"{indent}-> ", f"{indent}   ")


def _wrapped(text: str, start: str, indent: str) -> str:
    return textwrap.fill(
        text, _WIDTH, initial_indent=start, subsequent_indent=indent, break_on_hyphens=False
    )


def _user() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())
