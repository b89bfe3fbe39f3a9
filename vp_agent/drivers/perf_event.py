# SPDX-License-Identifier: Apache-2.0
"""The kernel's perf_event_open: event groups of one thread, and its errors in words.

Only the system call and its meaning live here; whose threads are counted and when is decided in
`counters_perf.py`. One group per thread is read in one go, so that its numbers belong together.
"""

import ctypes
import errno
import fcntl
import os
import platform
import struct
from collections.abc import Sequence
from pathlib import Path

from vp_agent.drivers.hardware_events import ANY_PMU, CpuEvents, Event

_SYSCALL_NUMBERS = {"x86_64": 298, "aarch64": 241, "riscv64": 241, "ppc64le": 319, "s390x": 331}
_ATTR_BYTES = 112  # PERF_ATTR_SIZE_VER5, known since Linux 4.1
_DISABLED = 1 << 0
_TIME_ENABLED, _TIME_RUNNING, _GROUP = 1 << 0, 1 << 1, 1 << 3
_FD_CLOEXEC = 8
_IOC_ENABLE = 0x2400

_ANY_THREAD = _ANY_CPU = _NO_GROUP = -1

_ROOMY_FDS = 8192

NO_PMU_ERRNOS = frozenset({errno.ENOENT, errno.EOPNOTSUPP, errno.ENODEV, errno.ENXIO})
_NO_SUCH_EVENT_ERRNOS = NO_PMU_ERRNOS | {errno.EINVAL}

NO_PMU = (
    "this host has no PMU (the machine has none, it is a virtual machine without a virtual PMU, or "
    "KVM's mediated vPMU holds it). Run on bare metal, or give this virtual machine a vPMU; a test "
    "host can use the software PMU (counters = vpmu, see testbed/vpmu)"
)

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long


class ThreadGroup:
    """The events of one thread, counted together. Guest and host execution both count: with
    exclude_guest a vCPU thread would show next to nothing of its guest."""

    __slots__ = ("_enabled_ns", "_fds", "_raw", "_running_ns", "_struct", "_totals")

    def __init__(self, tid: int, events: Sequence[Event]) -> None:
        """Raises OSError; then nothing is left open."""
        self._fds: list[int] = []
        self._struct = struct.Struct(f"=3Q{len(events)}Q")
        self._raw = [0] * len(events)
        self._totals = [0] * len(events)
        self._enabled_ns = self._running_ns = 0
        try:
            for event in events:
                self._fds.append(_open(event, tid, self._fds[0] if self._fds else _NO_GROUP))
            fcntl.ioctl(self._fds[0], _IOC_ENABLE)
        except BaseException:
            self.close()
            raise

    def read(self) -> tuple[int, int]:
        """Adds what was counted since the last call to `totals`; returns how long, in ns, the group
        was enabled and running meanwhile. Raises OSError."""
        data = os.read(self._fds[0], self._struct.size)
        if len(data) != self._struct.size:
            raise OSError(errno.ENODATA, "the kernel stopped its counters")
        _, enabled_ns, running_ns, *raw = self._struct.unpack(data)
        enabled_for = enabled_ns - self._enabled_ns
        running_for = running_ns - self._running_ns
        if enabled_for == running_for:
            self._totals = [
                total + now - was
                for total, now, was in zip(self._totals, raw, self._raw, strict=True)
            ]
        elif running_for > 0:
            # Scaled per interval: a cumulative count scaled by a cumulative ratio can go down.
            scale = enabled_for / running_for
            self._totals = [
                total + round((now - was) * scale)
                for total, now, was in zip(self._totals, raw, self._raw, strict=True)
            ]
        self._enabled_ns, self._running_ns, self._raw = enabled_ns, running_ns, raw
        return enabled_for, running_for

    @property
    def totals(self) -> Sequence[int]:
        """In the order of the events."""
        return self._totals

    def close(self) -> None:
        while self._fds:
            os.close(self._fds.pop())


def try_pmu() -> None:
    """Counts our own thread for a moment. Raises OSError: there is no PMU here, or no right."""
    ThreadGroup(0, ANY_PMU).close()


def find_events(events: CpuEvents) -> tuple[Event, ...]:
    """Which of these events this host counts, tried on our own thread. Raises OSError."""
    try:
        ThreadGroup(0, events.group).close()
    except OSError as error:
        if error.errno not in _NO_SUCH_EVENT_ERRNOS:
            raise
    else:
        return events.group
    ThreadGroup(0, events.needed).close()
    return events.needed


def is_mediated(sys_directory: Path) -> bool:
    """Whether KVM hands the PMU to guests: then counting guests keeps VMs from starting."""
    parameters = sys_directory.glob("module/kvm_*/parameters/enable_mediated_pmu")
    return any(path.read_text().strip() in ("Y", "1") for path in parameters)


def explain(error: OSError, fds_needed: int) -> str:
    """What the error means here and what to do next."""
    match error.errno:
        case code if code in NO_PMU_ERRNOS:
            return NO_PMU
        case errno.EACCES | errno.EPERM:
            return (
                "not permitted to count other users' threads: give vp-agent CAP_PERFMON "
                "(AmbientCapabilities= in its systemd unit); where kernel.perf_event_paranoid is "
                "above 2 (as by default on Debian and Ubuntu, whose kernels then ask for "
                "CAP_SYS_ADMIN), set it to 2"
            )
        case errno.EMFILE | errno.ENFILE:
            return (
                f"out of file descriptors: one per vCPU and event, {fds_needed} for the servers "
                f"now. Set LimitNOFILE={max(_ROOMY_FDS, 2 * fds_needed)} in vp-agent's systemd unit"
            )
        case errno.ENOSYS:
            return "this kernel is built without perf events, or a sandbox forbids the call"
    return f"perf_event_open failed: {os.strerror(error.errno or 0)}"


def open_on_cpu(event: Event, cpu: int) -> int:
    """Counts from now on whatever runs, for PMUs that belong to no thread; the file reads as one
    64-bit count. Raises OSError."""
    attr = bytearray(_ATTR_BYTES)
    struct.pack_into("=2IQ", attr, 0, event.type, _ATTR_BYTES, event.config)
    return _system_call(event, attr, _ANY_THREAD, cpu, _NO_GROUP)


def _open(event: Event, tid: int, group_fd: int) -> int:
    leads = group_fd == _NO_GROUP
    attr = bytearray(_ATTR_BYTES)
    read_format = _GROUP | _TIME_ENABLED | _TIME_RUNNING
    # type, size, config, sample_period, sample_type, read_format, flags. Only the leader starts
    # disabled, so that one ioctl starts them all in the same moment.
    flags = _DISABLED if leads else 0
    struct.pack_into(
        "=2I5Q", attr, 0, event.type, _ATTR_BYTES, event.config, 0, 0, read_format, flags
    )
    return _system_call(event, attr, tid, _ANY_CPU, group_fd)


def _system_call(event: Event, attr: bytearray, tid: int, cpu: int, group_fd: int) -> int:
    number = _SYSCALL_NUMBERS.get(platform.machine())
    if number is None:
        raise OSError(errno.ENOSYS, f"perf_event_open is not known for {platform.machine()}")
    fd: int = _libc.syscall(
        ctypes.c_long(number),
        (ctypes.c_char * _ATTR_BYTES).from_buffer(attr),
        ctypes.c_long(tid),
        ctypes.c_long(cpu),
        ctypes.c_long(group_fd),
        ctypes.c_long(_FD_CLOEXEC),
    )
    if fd < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{event.name}: {os.strerror(code)}")
    return fd
