# SPDX-License-Identifier: Apache-2.0
"""`vp-agent learn-cpi`: the learning phase of the loop `cpi`, from a recording of a time in which
no best-effort server ran beside the latency-critical ones."""

import argparse
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from oslo_config import cfg

from nova_vp.core.types.guest import Guest
from nova_vp.core.types.picture import Picture
from nova_vp.core.types.sample import Reading
from nova_vp.core.types.service_level import ServiceClass
from nova_vp.recording.file_format import NotARecording, read
from vp_agent.cpi_threshold import threshold_of

CPI_S, CPU_S = 18.5, 2.0
"""Intervals in which the loop `cpi` looks at CPI and at CPU: its MAIN_S and SUB_S. They are not
imported, since the agent runs without any single controller; a test of the loop compares them."""

LEAST_CORES = 0.01
"""Of one that hardly ran: the option takes no zero."""


class NothingToLearn(Exception):
    """The message says what the recording lacks."""


class Look(NamedTuple):
    """One server at one moment."""

    at_s: float
    guest: Guest
    reading: Reading
    disturbed: int
    """So many pictures before it are left out."""


def add_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "files",
        type=Path,
        nargs="+",
        metavar="FILE",
        help="A recording, made with `vp-agent record on FILE`; of one that was begun anew, FILE.1 "
        "and FILE",
    )


def run(conf: cfg.ConfigOpts) -> int:
    """Raises NothingToLearn, NotARecording, TooFewSamples, NoLibrary."""
    files = conf.command.files
    try:
        print(",".join(learned(picture for file in files for picture in _pictures(file))))
    except OverflowError as exc:
        names = ", ".join(map(str, files))
        raise NotARecording(f"{names}: its numbers are damaged: {exc}") from exc
    for file in files:
        earlier = file.with_name(f"{file.name}.1")
        if earlier.exists() and earlier not in files:
            print(f"{earlier}, the part before {file}, was not read", file=sys.stderr)
    return 0


def _pictures(file: Path) -> list[Picture]:
    """Raises NothingToLearn, NotARecording."""
    try:
        with file.open(encoding="utf-8", newline="\n") as lines:
            return [tick.picture for section in read(lines) for tick in section.ticks]
    except OSError as exc:
        raise NothingToLearn(
            f"{file}: {exc.strerror}; give a recording of `vp-agent record on FILE`"
        ) from exc
    except UnicodeDecodeError as exc:
        raise NotARecording(f"{file}: not a recording: the file is not text") from exc


def learned(pictures: Iterable[Picture]) -> Iterator[str]:
    """`UUID=threshold/cores` of each latency-critical server. Raises NothingToLearn."""
    looks: dict[str, list[Look]] = {}
    disturbed = 0
    for picture in pictures:
        if any(map(_may_disturb, picture.guests)):
            disturbed += 1
            continue
        for guest in picture.guests:
            reading = picture.readings.get(guest.uuid)
            if guest.is_latency_critical and reading is not None:
                look = Look(picture.at_s, guest, reading, disturbed)
                looks.setdefault(guest.uuid, []).append(look)
    if not looks:
        raise NothingToLearn(
            "no latency-critical server was measured in this recording while no best-effort server "
            "ran"
        )
    for uuid, seen in sorted(looks.items()):
        cpis = list(_cpis(seen))
        most_cores = max(_cores(seen), default=0.0)
        yield f"{uuid}={threshold_of(cpis):.4f}/{max(most_cores, LEAST_CORES):.2f}"


def _may_disturb(guest: Guest) -> bool:
    return guest.service_class is ServiceClass.BEST_EFFORT and guest.is_running


def _cpis(looks: list[Look]) -> Iterator[float]:
    """Of each interval of the monitor of CPI."""
    for before, look in _spans(looks, CPI_S):
        instructions = look.reading.instructions - before.reading.instructions
        if instructions > 0:
            yield (look.reading.cycles - before.reading.cycles) / instructions


def _cores(looks: list[Look]) -> Iterator[float]:
    """Of each interval of the monitor of CPU."""
    for before, look in _spans(looks, CPU_S):
        ran_ns = look.guest.cpu_time_ns - before.guest.cpu_time_ns
        yield ran_ns / 1e9 / (look.at_s - before.at_s)


def _spans(looks: list[Look], span_s: float) -> Iterator[tuple[Look, Look]]:
    """Of at least that length, one after the other, in which all counters went on and nothing is
    left out."""
    begun = before = looks[0]
    for look in looks[1:]:
        if not _goes_on(before, look):
            begun = look
        elif look.at_s - begun.at_s >= span_s:
            yield begun, look
            begun = look
        before = look


def _goes_on(before: Look, look: Look) -> bool:
    return (
        before.disturbed == look.disturbed
        and before.guest.generation == look.guest.generation
        and before.reading.generation == look.reading.generation
        and look.at_s > before.at_s
    )
