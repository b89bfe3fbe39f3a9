# SPDX-License-Identifier: Apache-2.0
"""Options that exist, ours, the libraries' and Nova's, and files of options as tests read them."""

from collections.abc import Iterable
from typing import Any

import nova.conf
from keystoneauth1.loading import get_auth_plugin_conf_options
from keystonemiddleware.auth_token import list_opts as authtoken_opts
from oslo_config import cfg, iniparser
from oslo_log._options import list_opts as log_opts
from oslo_messaging.opts import list_opts as bus_opts
from oslo_middleware.opts import list_opts as middleware_opts

from nova_vp import conf
from nova_vp.conf import cloud, database
from vp_tempest_plugin import config as tempest

PRIVSEP = ("vp_agent_sys_nice", "vp_agent_dac_override", "vp_agent_sys_ptrace", "vp_agent_root")

FORMER = {
    (former.group or "DEFAULT", former.name)
    for _, options in conf.list_opts()
    for option in options
    for former in option.deprecated_opts
}
"""Names of options of ours that are still read."""


def by_name(*listings: Any) -> set[tuple[str, str]]:
    entries = [entry for listing in listings for entry in listing]
    return {(group or "DEFAULT", option.dest) for group, options in entries for option in options}


OURS = {(group, option.name): option for group, options in conf.list_opts() for option in options}
OF_LIBRARIES = (authtoken_opts(), middleware_opts(), bus_opts(), log_opts())
OF_PLUGIN = {(group.name, option.name) for group, opts in tempest.list_opts() for option in opts}
OF_TEMPEST = {
    ("auth", "use_dynamic_credentials"),
    ("compute", "image_ref"),
    ("compute", "flavor_ref"),
    ("compute", "max_microversion"),
}
"""Tempest itself is not installed here."""
LISTED = {*OURS, *by_name(cloud.list_opts(), database.list_opts(), *OF_LIBRARIES)}
LISTED |= OF_PLUGIN | OF_TEMPEST
OF_OTHERS = {
    *(("keystone_authtoken", option.dest) for option in get_auth_plugin_conf_options("password")),
    *((section, "helper_command") for section in PRIVSEP),
}
"""Those that are registered once it is known what they are for."""


class Settings(iniparser.BaseParser):
    """`(group, name, value)` of every assignment."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, str, str]] = []

    def new_section(self, section: str) -> None:
        self._group = section

    def assignment(self, key: str, value: list[str]) -> None:
        self.found.append((self._group, key, "\n".join(value)))

    def comment(self, comment: str) -> None:
        """Nothing to keep."""


def assignments(lines: Iterable[str]) -> list[tuple[str, str, str]]:
    parser = Settings()
    parser.parse(lines)
    return parser.found


def is_option(group: str, name: str) -> bool:
    if (group, name) in LISTED | OF_OTHERS | FORMER:
        return True
    try:
        owner = nova.conf.CONF if group == "DEFAULT" else nova.conf.CONF[group]
        return name in owner
    except (cfg.NoSuchGroupError, cfg.NoSuchOptError):
        return False
