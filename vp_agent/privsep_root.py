# SPDX-License-Identifier: Apache-2.0
"""The helper that changes resctrl groups, and asks systemd for weights: uid 0 without any
capability.

The kernel asks for the uid when a thread of another user is moved between groups, and systemd when
a unit is changed, both for no capability. Imported only where it is needed, as `vp_agent.privsep`
is.
"""

import errno
from collections.abc import Callable

from oslo_config import cfg
from oslo_privsep import comm, daemon, priv_context

from vp_agent.drivers import systemd_scopes
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


def set_scope_weight(pid: int, started: int, number: int) -> None:
    """Raises OSError, EPERM if there is no helper."""
    if not cfg.CONF[SECTION].helper_command:
        raise PermissionError(errno.EPERM, f"[{SECTION}] helper_command is not set")
    _call(lambda: set_scope_weight_inside(pid, started, number))


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


@root.entrypoint  # type: ignore[untyped-decorator]
def set_scope_weight_inside(pid: int, started: int, number: int) -> None:
    systemd_scopes.set_weight(pid, started, number)
