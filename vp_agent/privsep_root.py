# SPDX-License-Identifier: Apache-2.0
"""The helper that changes resctrl groups: uid 0 without any capability.

The kernel asks for the uid when a thread of another user is moved between groups, and for no
capability; the folders are root's. Imported only where it is needed, as `vp_agent.privsep` is.
"""

import errno
from collections.abc import Callable

from oslo_privsep import comm, daemon, priv_context

from vp_agent.drivers.resctrl_groups import Groups

SECTION = "vp_agent_root"

root = priv_context.PrivContext(
    "vp_agent", cfg_section=SECTION, pypath=f"{__name__}.root", capabilities=[]
)


class Helper:
    """The changes of `Groups`, below /sys/fs/resctrl alone. All raise OSError, EPERM if there is
    no helper."""

    def make(self, name: str) -> None:
        _call(lambda: make_inside(name))

    def limit(self, name: str, schemata: str) -> None:
        _call(lambda: limit_inside(name, schemata))

    def assign(self, name: str, pid: int, started: int) -> None:
        _call(lambda: assign_inside(name, pid, started))

    def remove(self, name: str) -> None:
        _call(lambda: remove_inside(name))


def _call(inside: Callable[[], None]) -> None:
    try:
        inside()
    except (daemon.FailedToDropPrivileges, daemon.ProtocolError, comm.PrivsepTimeout) as exc:
        raise PermissionError(errno.EPERM, f"the privileged helper failed: {exc}") from exc


@root.entrypoint  # type: ignore[untyped-decorator]  # oslo.privsep is not typed
def make_inside(name: str) -> None:
    Groups().make(name)


@root.entrypoint  # type: ignore[untyped-decorator]
def limit_inside(name: str, schemata: str) -> None:
    Groups().limit(name, schemata)


@root.entrypoint  # type: ignore[untyped-decorator]
def assign_inside(name: str, pid: int, started: int) -> None:
    Groups().assign(name, pid, started)


@root.entrypoint  # type: ignore[untyped-decorator]
def remove_inside(name: str) -> None:
    Groups().remove(name)
