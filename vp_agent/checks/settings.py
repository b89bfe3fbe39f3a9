# SPDX-License-Identifier: Apache-2.0
"""The files of the configuration: values that make no sense, names that nobody reads, and a host
name that is not Nova's.
"""

import difflib
import socket
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from oslo_config import cfg

from nova_vp import conf as options
from nova_vp import wire
from nova_vp.core.types.topology import Topology
from nova_vp.cpuset import parse_cpus
from vp_agent.checks.finding import Finding, failure, ok, warning
from vp_agent.latency.poller import open_sources
from vp_agent.monitors.runner import open_monitors

CONFIGURATION, HOST_NAME = "configuration", "host name"
NOVA_FILES = ("nova.conf", "nova-compute.conf")


def configuration(conf: cfg.ConfigOpts) -> Iterator[Finding]:
    faults = [*options.faults(conf), *_wrong_sources(conf), *_wrong_monitors(conf)]
    for fault in faults:
        yield failure(CONFIGURATION, fault, "correct the value; the agent does not start with it")
    unknown = [*_unknown(conf.config_file)]
    yield from unknown
    if not faults and not unknown:
        yield ok(CONFIGURATION, options.origin(conf))


def _wrong_sources(conf: cfg.ConfigOpts) -> Iterator[str]:
    try:
        open_sources(conf.agent.latency_sources)
    except cfg.Error as exc:
        yield str(exc)


def _wrong_monitors(conf: cfg.ConfigOpts) -> Iterator[str]:
    try:
        for _, monitor in open_monitors(conf.agent.monitors):
            monitor.close()
    except cfg.Error as exc:
        yield str(exc)


def _unknown(files: Iterable[str]) -> Iterator[Finding]:
    """Names in groups that are ours alone, which nothing reads: a typing error changes nothing,
    and says nothing."""
    known: dict[str, set[str]] = {}
    for group, listed in options.list_opts():
        known.setdefault(group, set()).update(option.dest for option in listed)
    moved = _moved()
    for file in files:
        for group, names in _sections(Path(file)).items():
            for name in sorted(names.keys() - known.get(group, names.keys())):
                if now := moved.get((group, name)):
                    told = f"{file}: [{group}] {name} is a former name, which is still read"
                    yield warning(CONFIGURATION, told, f"write it as {now}")
                    continue
                near = difflib.get_close_matches(name, known[group], 1)
                mend = f"write {near[0]}" if near else "remove the line; nothing reads it"
                yield warning(CONFIGURATION, f"{file}: [{group}] {name} is not an option", mend)


def _moved() -> Mapping[tuple[str, str], str]:
    """By group and name that an option had in an earlier release: what it is now."""
    return {
        (former.group or group, former.name): f"[{group}] {option.dest}"
        for group, listed in options.list_opts()
        for option in listed
        for former in option.deprecated_opts
    }


def host_name(conf: cfg.ConfigOpts, nova: Path) -> Iterator[Finding]:
    """`nova`: the folder of nova-compute's files, which the agent need not be able to read."""
    name = str(conf.agent.host or socket.gethostname())
    if not wire.is_host_name(name):
        mend = "give nova-compute's [DEFAULT] host; letters, digits and _.:@- are allowed"
        yield failure(HOST_NAME, f"[agent] host = {name!r} is not a valid host name", mend)
        return
    novas = _novas_name(nova)
    if novas is not None and novas != name:
        told = f"nova-compute is named {novas!r}, but this agent reports as {name!r}"
        yield failure(HOST_NAME, told, f"set [agent] host = {novas}")
    else:
        yield ok(HOST_NAME, name if novas is None else f"{name}, the same as nova-compute")


def _novas_name(folder: Path) -> str | None:
    """None: there is no file, or it is not for our eyes."""
    found = None
    for file in NOVA_FILES:
        try:
            default = _sections(folder / file).get("DEFAULT", {})
        except PermissionError:
            return None
        found = default.get("host", [found])[-1]
        if default and found is None:
            found = socket.gethostname()
    return found


def novas_cpus(nova: Path, topology: Topology) -> Iterator[Finding]:
    """Servers that float may run on these alone, so nothing can be moved beyond them."""
    name = "Nova's CPUs"
    told = _option(nova, "compute", "cpu_shared_set") or _option(nova, "DEFAULT", "vcpu_pin_set")
    if told is None:
        yield ok(name, "all, or its configuration files are not readable")
        return
    try:
        shared = parse_cpus(told)
    except ValueError as exc:
        yield warning(name, f"[compute] cpu_shared_set: {exc}", "correct it in nova.conf")
        return
    domains = [domain for domain in topology.domains if domain.cpus & shared]
    if len(domains) < min(2, len(topology.domains)):
        yield warning(
            name,
            f"cpu_shared_set = {told} reaches {len(domains)} of {len(topology.domains)} "
            "last-level caches: servers cannot be moved to another cache",
            "give Nova CPUs of several caches; otherwise aggressors can only be capped",
        )
    else:
        yield ok(name, f"{told}: {len(domains)} of {len(topology.domains)} last-level caches")


def _option(folder: Path, group: str, name: str) -> str | None:
    """As the last file has it; None: none has it, or it is not for our eyes."""
    found = None
    for file in NOVA_FILES:
        try:
            found = _sections(folder / file).get(group, {}).get(name, [found])[-1]
        except PermissionError:
            return None
    return found


def _sections(file: Path) -> Mapping[str, Mapping[str, list[str]]]:
    """Empty where there is no file. Raises PermissionError."""
    sections: dict[str, dict[str, list[str]]] = {}
    try:
        cfg.ConfigParser(str(file), sections).parse()
    except (FileNotFoundError, cfg.ParseError):
        return {}
    return sections
