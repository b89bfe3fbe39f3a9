# SPDX-License-Identifier: Apache-2.0
"""A private Prometheus for tests, where it is installed: own port and folder, gone afterwards."""

import contextlib
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.rabbitmq import free_port
from tests.waiting import answers_on, wait_until

BINARY = shutil.which("prometheus")


@contextlib.contextmanager
def running(folder: Path, config: str) -> Iterator[str]:
    """The URL of one with this configuration."""
    assert BINARY is not None
    port = free_port()
    file = folder / "prometheus.yml"
    file.write_text(config)
    argv = [
        BINARY,
        f"--config.file={file}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    process = subprocess.Popen(argv, stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: answers_on(port), "prometheus")
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


def prometheus(folder: Path, scraped: str) -> contextlib.AbstractContextManager[str]:
    """The URL of one that scrapes this address, `host:port`, every second."""
    return running(
        folder,
        "global: {scrape_interval: 1s}\n"
        f"scrape_configs: [{{job_name: web, static_configs: [{{targets: ['{scraped}']}}]}}]\n",
    )
