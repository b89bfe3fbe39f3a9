# SPDX-License-Identifier: Apache-2.0
"""Starts Horizon on a loopback port: gunicorn of `.venv-dashboard`, which tools/make-dashboard-venv
makes."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
VENV = ROOT / ".venv-dashboard"


def start(
    folder: Path, port: int, keystone_url: str, timeout_s: float = 30.0
) -> "subprocess.Popen[bytes]":
    """`folder`: where its log is written. `timeout_s`: of requests of vp-api."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "PYTHONWARNINGS": "ignore",
        "DJANGO_SETTINGS_MODULE": "openstack_dashboard.settings",
        "HORIZON_STATIC_ROOT": str(VENV / "static"),
        "HORIZON_KEYSTONE_URL": keystone_url,
        "HORIZON_VP_API_TIMEOUT_S": str(timeout_s),
        "HORIZON_SECRET_KEY": os.urandom(32).hex(),
    }
    gunicorn = [
        str(VENV / "bin/gunicorn"),
        "--graceful-timeout",
        "1",
        "--workers",
        "1",
        "--threads",
        "4",
        "--timeout",
        "120",
    ]
    with open(folder / "horizon.log", "wb") as log:
        return subprocess.Popen(
            [*gunicorn, "--bind", f"127.0.0.1:{port}", "testbed.dashboard.wsgi:application"],
            cwd=ROOT,
            env=environment,
            stdout=log,
            stderr=log,
        )


@contextmanager
def running(folder: Path, port: int, keystone_url: str, timeout_s: float = 30.0) -> Iterator[str]:
    """The URL that it will answer at."""
    server = start(folder, port, keystone_url, timeout_s)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait()
