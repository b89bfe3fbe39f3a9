# SPDX-License-Identifier: Apache-2.0
"""Accounts and keys of the lab's machines, made by `vp-manage credentials` as an operator does."""

import shutil
import socket
from collections.abc import Iterable
from pathlib import Path

from testbed.lab import controller, database, settings
from testbed.lab.host import Host

FOLDER = settings.RUN / "credentials"
BROKER = f"rabbit://{settings.CONTROLLER_IP}:{settings.RABBIT_PORT}/"


def of_host(name: str) -> Path:
    """Its files: `keys/` and a file of configuration for each program."""
    return FOLDER / name


def ensure(hosts: Iterable[Host]) -> None:
    """Those of machines that have none yet. The controller's come with the first."""
    wanted = [f"--host={one.name}" for one in hosts if not of_host(one.name).exists()]
    if not controller.CREDENTIALS.exists():
        wanted.append(f"--controller={socket.gethostname()}")
    if not wanted:
        return
    database.ensure_ours()
    fresh = FOLDER.with_name("credentials.new")
    shutil.rmtree(fresh, ignore_errors=True)
    database.manage(
        "vp-manage",
        "nova-vp.conf",
        *("credentials", "create", f"--broker={BROKER}", f"--directory={fresh}", *wanted),
    )
    controller.rabbitmqctl("import_definitions", str(fresh / "rabbitmq.json"))
    FOLDER.mkdir(exist_ok=True)
    for made in [path for path in fresh.iterdir() if path.is_dir()]:
        made.rename(FOLDER / made.name)
