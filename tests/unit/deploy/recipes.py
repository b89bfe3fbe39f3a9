# SPDX-License-Identifier: Apache-2.0
"""The files of deploy/ as the tests read them, with the configuration that they write."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jinja2
import yaml

from tests.options import assignments

ROOT = Path(__file__).parents[3]
DEPLOY = ROOT / "deploy"
CONTAINERS, SHARED = DEPLOY / "containers", DEPLOY / "ansible"
KOLLA, OSA, HELM = DEPLOY / "kolla-ansible", DEPLOY / "openstack-ansible", DEPLOY / "helm"
CHART = HELM / "nova-vp"
FILES = sorted(path for path in DEPLOY.rglob("*") if path.is_file())
CONTAINER_FILES = sorted(CONTAINERS.glob("*.Containerfile"))
JINJA = jinja2.Environment(
    undefined=jinja2.StrictUndefined, trim_blocks=True, keep_trailing_newline=True, autoescape=False
)
JINJA.filters["bool"] = bool
"""As Ansible configures it; its filter."""
VARIABLES = {
    "ansible_managed": "made by Ansible",
    "nova_vp_broker_cafile": "/ca.pem",
    "nova_vp_broker_has_tls": True,
    "nova_vp_cafile": "/ca.pem",
    "nova_vp_database_connection": "mysql+pymysql://nova_vp:SECRET@controller/nova_vp",
    "nova_vp_debug": False,
    "nova_vp_enabled_filters": ["ComputeFilter", "VPIsolationFilter"],
    "nova_vp_escalation_mode": "observe",
    "nova_vp_host": "compute-17",
    "nova_vp_is_compute": True,
    "nova_vp_is_controller": True,
    "nova_vp_keystone_password": "SECRET",
    "nova_vp_keystone_public_url": "http://controller:5000/",
    "nova_vp_keystone_url": "http://controller:5000/",
    "nova_vp_keystone_user": "nova-vp",
    "nova_vp_memcached_servers": ["controller:11211"],
    "nova_vp_region": "RegionOne",
}

Setting = tuple[str, str, str]


def read(path: Path) -> Any:
    return yaml.safe_load(path.read_text())


def text_of(template: str, **variables: Any) -> str:
    return JINJA.from_string((SHARED / template).read_text()).render(VARIABLES | variables)


def rendered(template: str, **variables: Any) -> list[Setting]:
    return assignments(text_of(template, **variables).splitlines(keepends=True))


def in_values(conf: dict[str, dict[str, Any]]) -> list[Setting]:
    """Of a chart's values; openstack-helm has a form for an option that is there several times."""
    return [
        (group, name, str(one))
        for group, options in conf.items()
        for name, value in options.items()
        for one in (value["values"] if isinstance(value, dict) else [value])
    ]


def of_ours() -> dict[str, list[Setting]]:
    """What each recipe writes into nova-vp.conf."""
    values = read(CHART / "values.yaml")
    return {
        "nova-vp.conf.j2": rendered("nova-vp.conf.j2"),
        "values.yaml": in_values(values["conf"]),
        "values.yaml, agent": in_values(values["agent"]["conf"]),
    }


def of_nova() -> dict[str, list[Setting]]:
    """What each recipe writes into files of Nova."""
    return {
        "nova-scheduler.conf.j2": rendered("nova-scheduler.conf.j2"),
        "nova-values.yaml": in_values(read(HELM / "nova-values.yaml")["conf"]["nova"]),
    }


def strings(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for one in value.values():
            yield from strings(one)
    elif isinstance(value, list):
        for one in value:
            yield from strings(one)
    elif isinstance(value, str):
        yield value


def first_line(path: Path) -> str:
    """The second one of a script that says who runs it."""
    lines = [line for line in path.read_text().splitlines() if not line.startswith("#!")]
    return lines[0] if lines else ""


def ran() -> set[str]:
    """The files and folders of deploy/ that the page lists as really run."""
    page = (ROOT / "doc/source/ran-where.md").read_text()
    rows = re.findall(r"^\| ([^|]*) \| real:", page, re.M)
    return {name.rstrip("/") for row in rows for name in re.findall(r"`(deploy/[^`]*)`", row)}
