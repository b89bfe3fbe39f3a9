# SPDX-License-Identifier: Apache-2.0
"""Configuration files from templates in conf/: `@{name}` is a value, `@{file:X}` a template."""

import re
from pathlib import Path

from testbed.lab import settings
from testbed.lab.nova import Nova

Values = dict[str, str]
PLACEHOLDER = re.compile(r"@\{([^}]+)\}")


def common_values(nova: Nova) -> Values:
    databases = ("keystone", "placement", "glance", "nova_api", "nova_cell1", "nova_vp")
    return {
        "controller": settings.CONTROLLER_IP,
        "keystone_url": settings.KEYSTONE_URL,
        "rabbit_url": settings.RABBIT_URL,
        "memcached": f"{settings.CONTROLLER_IP}:{settings.MEMCACHED_PORT}",
        "password": settings.PASSWORD,
        "region": settings.REGION,
        "cloud_user": settings.CLOUD_USER,
        "nova": str(nova.folder),
        "nova_policy": str(nova.policy_file),
        "run": str(settings.RUN),
        **{f"database_{name}": settings.database_url(name) for name in databases},
    }


def render(template: str, values: Values) -> str:
    def replace(match: re.Match[str]) -> str:
        kind, _, name = match[1].rpartition(":")
        return render(name, values).rstrip() if kind == "file" else values[name]

    return PLACEHOLDER.sub(replace, (settings.LAB / "conf" / template).read_text())


def render_to(path: Path, template: str, values: Values) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(render(template, values))
