# SPDX-License-Identifier: Apache-2.0
"""Counters of emulated guests, from the shared-memory files of the software PMU (testbed/vpmu).

The layout is that of `vpmu_layout.h`, version 1; a test compares the two. Files are read with
`pread`, never mapped: the folder belongs to QEMU's user, and a mapped file that somebody truncates
kills its reader with SIGBUS. A short read only costs one guest its sample.
"""

import fcntl
import functools
import os
import stat
import struct
from collections.abc import Iterable, Mapping
from pathlib import Path

from nova_vp.core.types.sample import Reading
from vp_agent.drivers.base import CountersUnavailable, VcpuThreads
from vp_agent.drivers.counters import CounterSettings

_MAGIC = 0x00314D56554D5056
_VERSION = 1
_MAX_VCPUS = 64
# magic, version, header_bytes, slot_bytes, vcpu_count, pid, vm_id, started_ns
_HEADER = struct.Struct("<QIIIIiIQ")
# instructions, cycles, (l1_misses), llc_references, llc_misses_local, llc_misses_remote
_SLOT_FORMAT = "2Q8x3Q208x"
_SLOT = struct.Struct(f"<{_SLOT_FORMAT}")
_SLOT_FIELDS = 5
# magic, version, (header_bytes), capacity_lines_per_s
_CONTROLLER = struct.Struct("<QI4xQ")
_CONTROLLER_MAGIC = 0x3130434D554D5056
_MAX_ERROR_BYTES = 400


class _Unreadable(Exception):
    """Why one guest has no reading, in words for an operator."""


class VpmuCounters:
    name = "vpmu"

    def __init__(self, settings: CounterSettings) -> None:
        self._directory = settings.vpmu_directory
        self._files: dict[str, _VmFile] = {}
        self._problems: dict[str, str] = {}
        try:
            os.scandir(self._directory).close()
        except OSError as error:
            raise CountersUnavailable(
                f"no software PMU: cannot list {self._directory} ({error.strerror}). It exists "
                "only on test hosts whose QEMU runs the vpmu plugin; elsewhere use perf"
            ) from error

    def read(self, threads: Iterable[VcpuThreads]) -> Mapping[str, Reading]:
        wanted = {guest.guest_uuid: guest for guest in threads}
        self._close_except(wanted)
        self._problems = {}
        readings = {}
        for uuid, guest in wanted.items():
            try:
                readings[uuid] = self._read_guest(guest)
            except _Unreadable as error:
                self._close(uuid)
                self._problems[uuid] = f"vpmu: {error}"
        return readings

    def problems(self) -> Mapping[str, str]:
        return dict(self._problems)

    def node_lines_per_s(self) -> float | None:
        """Of the weakest memory controller that the plugin models; None before the first guest,
        and where `bandwidth=0` leaves them without a limit."""
        found = (_capacity_of(path) for path in sorted(self._directory.glob("mc.*")))
        return min((lines_per_s for lines_per_s in found if lines_per_s), default=None)

    def close(self) -> None:
        self._close_except(())

    def _read_guest(self, guest: VcpuThreads) -> Reading:
        file = self._files.get(guest.guest_uuid)
        reading = file.read() if file else None
        # Only who counts on is certain to be alive: the file of an earlier start stays as it was.
        if file is None or reading is None or file.stands_still_at(reading):
            path = f"{self._directory}/vm.{guest.domain_name}"
            file = self._current_file(guest, path)
            reading = file.read()
            if file.stands_still_at(reading) and file.is_abandoned():
                raise _Unreadable(self._why_no_file(guest, f"{path} is from an earlier start"))
        if file.vcpus < len(guest.tids):
            self._problems[guest.guest_uuid] = (
                f"vpmu: counts {file.vcpus} of {len(guest.tids)} vCPUs"
            )
        return reading

    def _current_file(self, guest: VcpuThreads, path: str) -> "_VmFile":
        """Raises _Unreadable."""
        try:
            found = os.stat(path, follow_symlinks=False)
        except OSError as error:
            why = self._why_no_file(guest, f"{path}: {error.strerror}")
            raise _Unreadable(why) from error
        file = self._files.get(guest.guest_uuid)
        if file is None or file.identity != (found.st_dev, found.st_ino):
            # A restarted guest gets a new file; the old one would stay readable and frozen.
            self._close(guest.guest_uuid)
            file = self._files[guest.guest_uuid] = _VmFile(path)
        return file

    def _why_no_file(self, guest: VcpuThreads, found: str) -> str:
        told = _first_text(self._directory / f"error.{guest.domain_name}")
        if told:
            return f"the plugin refused this server: {told}"
        return (
            f"no counters of this server ({found}); was it started before QEMU's vpmu plugin was "
            "installed? Hard-reboot it"
        )

    def _close(self, guest_uuid: str) -> None:
        file = self._files.pop(guest_uuid, None)
        if file is not None:
            file.close()

    def _close_except(self, kept: Iterable[str]) -> None:
        for uuid in self._files.keys() - set(kept):
            self._close(uuid)


class _VmFile:
    """One life of one guest: an open file whose header was found good."""

    __slots__ = (
        "_fd",
        "_instructions",
        "_offset",
        "_slots",
        "generation",
        "identity",
        "vcpus",
    )

    def __init__(self, path: str) -> None:
        try:
            # Not blocking, not following: what lies there need not be what we expect.
            self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError as error:
            raise _Unreadable(f"cannot open {path}: {error.strerror}") from error
        try:
            self._check_header(path)
        except BaseException:
            self.close()
            raise

    def _check_header(self, path: str) -> None:
        opened = os.fstat(self._fd)
        if not stat.S_ISREG(opened.st_mode):
            raise _Unreadable(f"{path} is not a regular file; remove it")
        head = self._pread(_HEADER.size, 0)
        if len(head) < _HEADER.size:
            raise _Unreadable(f"{path} has no complete header yet")
        magic, version, header_bytes, slot_bytes, vcpus, _pid, _vm, started = _HEADER.unpack(head)
        if magic != _MAGIC:
            raise _Unreadable(f"{path} is not a vpmu file, or a half-made one")
        if version != _VERSION or slot_bytes != _SLOT.size:
            raise _Unreadable(
                f"{path} has layout version {version}, this agent reads {_VERSION}; install the "
                "plugin of the same release and hard-reboot the server"
            )
        if not 1 <= vcpus <= _MAX_VCPUS:
            raise _Unreadable(f"{path} is damaged: {vcpus} vCPUs")
        self.vcpus = vcpus
        self._offset, self._slots = header_bytes, _slots(vcpus)
        self.identity = (opened.st_dev, opened.st_ino)
        self.generation = f"{opened.st_ino}.{started}"
        self._instructions: int | None = None

    def read(self) -> Reading:
        data = self._pread(self._slots.size, self._offset)
        if len(data) != self._slots.size:
            raise _Unreadable("its counter file was truncated; hard-reboot the server")
        numbers = self._slots.unpack(data)
        instructions, vcpu_cycles, references, local, remotes = (
            numbers[field::_SLOT_FIELDS] for field in range(_SLOT_FIELDS)
        )
        remote = sum(remotes)
        return Reading(
            instructions=sum(instructions),
            cycles=sum(vcpu_cycles),
            llc_references=sum(references),
            llc_misses=sum(local) + remote,
            llc_misses_remote=remote,
            vcpus_read=self.vcpus,
            running_ratio=1.0,
            generation=self.generation,
            vcpu_cycles=vcpu_cycles,
        )

    def stands_still_at(self, reading: Reading) -> bool:
        """Also for the first reading. Who does not stand still need not be asked for the lock."""
        was, self._instructions = self._instructions, reading.instructions
        return was is None or was == reading.instructions

    def is_abandoned(self) -> bool:
        """QEMU locks its file for life; a killed one leaves the file, but not the lock."""
        try:
            fcntl.flock(self._fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return False
        fcntl.flock(self._fd, fcntl.LOCK_UN)
        return True

    def close(self) -> None:
        os.close(self._fd)

    def _pread(self, size_bytes: int, offset: int) -> bytes:
        try:
            return os.pread(self._fd, size_bytes, offset)
        except OSError as error:
            raise _Unreadable(f"cannot read its counter file: {error.strerror}") from error


@functools.cache
def _slots(vcpus: int) -> struct.Struct:
    return struct.Struct("<" + vcpus * _SLOT_FORMAT)


def _capacity_of(path: Path) -> int:
    """Lines per second; 0 if that is no controller's file of our layout."""
    head = _first_bytes(path, _CONTROLLER.size)
    if len(head) < _CONTROLLER.size:
        return 0
    magic, version, lines_per_s = _CONTROLLER.unpack(head)
    return int(lines_per_s) if (magic, version) == (_CONTROLLER_MAGIC, _VERSION) else 0


def _first_text(path: Path) -> str:
    return " ".join(_first_bytes(path, _MAX_ERROR_BYTES).decode(errors="replace").split())


def _first_bytes(path: Path, size_bytes: int) -> bytes:
    """Fewer, or none, where they cannot be read."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return b""
    try:
        return os.read(fd, size_bytes)
    except OSError:
        return b""
    finally:
        os.close(fd)
