# SPDX-License-Identifier: Apache-2.0
"""The privileged operations of the agent, in helpers that hold one capability each.

Imported only where it is needed: oslo.privsep and what it brings are 36 MiB, and an agent that
already holds the capability (systemd's AmbientCapabilities, or root) calls the kernel itself.
"""

import errno
from collections.abc import Callable, Sequence
from typing import ParamSpec, TypeVar

from oslo_privsep import capabilities, comm, daemon, priv_context

from vp_agent.drivers import cgroups, guest_pages, vcpu_threads

Parameters = ParamSpec("Parameters")
Answer = TypeVar("Answer")

sys_nice = priv_context.PrivContext(
    "vp_agent",
    cfg_section="vp_agent_sys_nice",
    pypath=f"{__name__}.sys_nice",
    capabilities=[capabilities.CAP_SYS_NICE],
)
# To write the files of the cgroups that libvirt made, which are root's.
dac_override = priv_context.PrivContext(
    "vp_agent",
    cfg_section="vp_agent_dac_override",
    pypath=f"{__name__}.dac_override",
    capabilities=[capabilities.CAP_DAC_OVERRIDE],
)
# To see and to move the pages of QEMU, which is another user's process.
sys_ptrace = priv_context.PrivContext(
    "vp_agent",
    cfg_section="vp_agent_sys_ptrace",
    pypath=f"{__name__}.sys_ptrace",
    capabilities=[capabilities.CAP_SYS_PTRACE],
)


def set_affinity(pid: int, started: int, vcpus: list[list[int]], emulator: list[int]) -> None:
    """Raises OSError, EPERM if there is no helper."""
    _ask(set_affinity_inside, pid, started, vcpus, emulator)


def set_quota(pid: int, started: int, quota_us: int, period_us: int) -> None:
    """Raises OSError, EPERM if there is no helper."""
    _ask(set_quota_inside, pid, started, quota_us, period_us)


def set_weight(pid: int, started: int, number: int) -> None:
    """Raises OSError, EPERM if there is no helper."""
    _ask(set_weight_inside, pid, started, number)


def set_emulator_weight(pid: int, started: int, number: int) -> None:
    """Raises OSError, EPERM if there is no helper."""
    _ask(set_emulator_weight_inside, pid, started, number)


def look(pid: int, started: int, memory_kib: int) -> guest_pages.Look:
    """Raises OSError, EPERM if there is no helper."""
    return guest_pages.Look(*_ask(look_inside, pid, started, memory_kib))


def move_chunk(
    pid: int, started: int, address: int, count: int, flows: Sequence[guest_pages.Flow]
) -> guest_pages.Moved:
    """Raises OSError, EPERM if there is no helper."""
    plain = [tuple(flow) for flow in flows]
    return guest_pages.Moved(*_ask(move_chunk_inside, pid, started, address, count, plain))


def _ask(
    call: Callable[Parameters, Answer], *args: Parameters.args, **kwargs: Parameters.kwargs
) -> Answer:
    """The helper starts with the first call."""
    try:
        return call(*args, **kwargs)
    except (daemon.FailedToDropPrivileges, daemon.ProtocolError, comm.PrivsepTimeout) as exc:
        raise PermissionError(errno.EPERM, f"the privileged helper failed: {exc}") from exc


# oslo.privsep is not typed.
@sys_nice.entrypoint  # type: ignore[untyped-decorator]
def set_affinity_inside(
    pid: int, started: int, vcpus: list[list[int]], emulator: list[int]
) -> None:
    vcpu_threads.set_affinity(pid, started, vcpus, emulator)


@dac_override.entrypoint  # type: ignore[untyped-decorator]
def set_quota_inside(pid: int, started: int, quota_us: int, period_us: int) -> None:
    cgroups.set_quota(pid, started, quota_us, period_us)


@dac_override.entrypoint  # type: ignore[untyped-decorator]
def set_weight_inside(pid: int, started: int, number: int) -> None:
    cgroups.set_weight(pid, started, number)


@dac_override.entrypoint  # type: ignore[untyped-decorator]
def set_emulator_weight_inside(pid: int, started: int, number: int) -> None:
    cgroups.set_emulator_weight(pid, started, number)


@sys_ptrace.entrypoint  # type: ignore[untyped-decorator]
def look_inside(pid: int, started: int, memory_kib: int) -> guest_pages.Look:
    return guest_pages.look(pid, started, memory_kib)


@sys_ptrace.entrypoint  # type: ignore[untyped-decorator]
def move_chunk_inside(
    pid: int, started: int, address: int, count: int, flows: Sequence[guest_pages.Flow]
) -> guest_pages.Moved:
    return guest_pages.move_chunk(pid, started, address, count, flows)
