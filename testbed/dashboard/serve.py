# SPDX-License-Identifier: Apache-2.0
"""How Horizon is started: gunicorn of `.venv-dashboard`, which tools/make-dashboard-venv makes."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
VENV = ROOT / ".venv-dashboard"
LOOPBACK = "127.0.0.1"
TIMEOUT_S = 30.0
"""Of requests of vp-api: where everything runs on one machine, it answers late."""


def argv(address: str, port: int) -> tuple[str, ...]:
    return (
        str(VENV / "bin/gunicorn"),
        *("--graceful-timeout", "1"),
        *("--workers", "1"),
        *("--threads", "4"),
        *("--timeout", "120"),
        *("--bind", f"{address}:{port}"),
        "testbed.dashboard.wsgi:application",
    )


def environment(address: str, keystone_url: str, timeout_s: float = TIMEOUT_S) -> dict[str, str]:
    """What its process needs besides the usual."""
    return {
        "PYTHONPATH": str(ROOT),
        "PYTHONWARNINGS": "ignore",
        "DJANGO_SETTINGS_MODULE": "openstack_dashboard.settings",
        "HORIZON_ADDRESS": address,
        "HORIZON_STATIC_ROOT": str(VENV / "static"),
        "HORIZON_KEYSTONE_URL": keystone_url,
        "HORIZON_VP_API_TIMEOUT_S": str(timeout_s),
    }


def start(
    folder: Path, port: int, keystone_url: str, timeout_s: float = TIMEOUT_S
) -> "subprocess.Popen[bytes]":
    """`folder`: where its log is written."""
    with open(folder / "horizon.log", "wb") as log:
        return subprocess.Popen(
            argv(LOOPBACK, port),
            cwd=ROOT,
            env={**os.environ, **environment(LOOPBACK, keystone_url, timeout_s)},
            stdout=log,
            stderr=log,
        )


@contextmanager
def running(
    folder: Path, port: int, keystone_url: str, timeout_s: float = TIMEOUT_S
) -> Iterator[str]:
    """The URL that it will answer at."""
    server = start(folder, port, keystone_url, timeout_s)
    try:
        yield f"http://{LOOPBACK}:{port}"
    finally:
        server.terminate()
        server.wait()
