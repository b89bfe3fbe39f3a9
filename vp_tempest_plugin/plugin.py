# SPDX-License-Identifier: Apache-2.0
"""What tempest asks of a plugin: where its tests are, its options, its client."""

from pathlib import Path
from typing import Any

from oslo_config import cfg
from tempest import config
from tempest.test_discover import plugins

from vp_tempest_plugin import config as options

FOLDER = Path(__file__).resolve().parent


class NovaVpTempestPlugin(plugins.TempestPlugin):
    def load_tests(self) -> tuple[str, str]:
        return str(FOLDER / "tests"), str(FOLDER.parent)

    def register_opts(self, conf: cfg.ConfigOpts) -> None:
        for group, opts in options.list_opts():
            config.register_opt_group(conf, group, opts)

    def get_opt_lists(self) -> list[tuple[str, list[cfg.Opt]]]:
        return [(group.name, opts) for group, opts in options.list_opts()]

    def get_service_clients(self) -> list[dict[str, Any]]:
        return [
            {
                "name": options.GROUP.name,
                "service_version": f"{options.GROUP.name}.v1",
                "module_path": "vp_tempest_plugin.services",
                "client_names": ["PerformanceIsolationClient"],
                **config.service_client_config(options.GROUP.name),
            }
        ]
