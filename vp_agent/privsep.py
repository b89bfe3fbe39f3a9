# SPDX-License-Identifier: Apache-2.0
"""The one privileged operation of the agent, in a helper that holds CAP_SYS_NICE and nothing else.

Imported only where it is needed: oslo.privsep and what it brings are 36 MiB, and an agent that
already holds the capability (systemd's AmbientCapabilities, or root) calls the kernel itself.
"""

import errno

from oslo_privsep import capabilities, comm, daemon, priv_context

from vp_agent.drivers import vcpu_threads

sys_nice = priv_context.PrivContext(
    "vp_agent",
    cfg_section="vp_agent_sys_nice",
    pypath=f"{__name__}.sys_nice",
    capabilities=[capabilities.CAP_SYS_NICE],
)


def set_affinity(pid: int, started: int, cpus: list[int]) -> None:
    """The helper starts with the first call. Raises OSError, EPERM if there is no helper."""
    try:
        set_affinity_inside(pid, started, cpus)
    except (daemon.FailedToDropPrivileges, daemon.ProtocolError, comm.PrivsepTimeout) as exc:
        raise PermissionError(errno.EPERM, f"the privileged helper failed: {exc}") from exc


@sys_nice.entrypoint  # type: ignore[untyped-decorator]  # oslo.privsep is not typed
def set_affinity_inside(pid: int, started: int, cpus: list[int]) -> None:
    vcpu_threads.set_affinity(pid, started, cpus)
