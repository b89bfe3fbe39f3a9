# SPDX-License-Identifier: Apache-2.0
"""Configuration of a program that knows its broker, and nothing else."""

from oslo_config import cfg

from nova_vp import conf as options


def a_conf(url: str) -> cfg.ConfigOpts:
    conf = cfg.ConfigOpts()
    options.register_all(conf)
    conf([], default_config_files=[])
    conf.set_override("transport_url", url, group="bus")
    return conf
