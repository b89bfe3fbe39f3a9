# SPDX-License-Identifier: Apache-2.0
"""The dashboard's heat map of 1000 hosts, cold: `python -m tests.bench.dashboard --json`.

Real Horizon, keystone, vp-api and MariaDB, with 10 VPs on each host. Whoever asks has just logged
in, each time anew, and asks for the page of its panel: `heatmap_1000_hosts_ms` is the 95th
percentile of that, `page_kib` the size of its HTML, `api_calls` what vp-api was asked for it.
`all_pages_ms` and `pages` tell of somebody who then reads on to the last host.
"""

import re
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from statistics import quantiles

import requests

from nova_vp.db import schema
from testbed.dashboard import serve
from tests.bench.api_services import list_in_catalog, running, token
from tests.bench.harness import (
    Benchmark,
    CannotMeasure,
    Numbers,
    command_line,
    fixed,
    progress,
    scaled,
)
from tests.dashboard.dashboard import Shown, User
from tests.rabbitmq import free_port
from tests.stored_cloud import Size, fill
from tests.waiting import wait_until
from vp_client.transport import SERVICE_TYPE

SIZE = Size(1000, 10, 1)
LOADS = 20
MAP = "/admin/vp_hosts/"
METRICS = "[vp_api]\nmetrics_port = {port}\n"
_ASKED = re.compile(r"^nova_vp_api_requests_total\{.*\} (\S+)$", re.MULTILINE)


def measure() -> Numbers:
    if not serve.VENV.exists():
        raise CannotMeasure("there is no Horizon here: run `tools/make-dashboard-venv` first")
    metrics, port = free_port(), free_port()
    with (
        tempfile.TemporaryDirectory() as folder,
        running(Path(folder), 1, METRICS.format(port=metrics)) as services,
        serve.running(Path(folder), port, services.keystone) as horizon,
    ):
        fill(schema.open_engine(services.conf), SIZE, datetime.now(UTC).replace(microsecond=0))
        progress("the cloud is stored")
        admin = token(services.keystone, "admin", "admin")
        list_in_catalog(services.keystone, admin, SERVICE_TYPE, services.apis[0])
        wait_until(lambda: _answers(horizon), "Horizon to answer", deadline_s=120)
        # Horizon reads its templates once.
        list(_loads(horizon, metrics, 1))
        progress("Horizon is warm, who asks is not")
        took_ms, sizes, calls = zip(*_loads(horizon, metrics, LOADS), strict=True)
        return {
            "heatmap_1000_hosts_ms": quantiles(took_ms, n=20)[-1],
            "page_kib": max(sizes) / 1024,
            "api_calls": max(calls),
            **_all_pages(horizon),
        }


def _answers(url: str) -> bool:
    with suppress(requests.ConnectionError):
        return requests.get(f"{url}/auth/login/", timeout=120).ok
    return False


def _loads(horizon: str, metrics: int, count: int) -> Iterator[tuple[float, int, int]]:
    """Milliseconds, bytes and requests of vp-api, each by somebody who has just logged in."""
    for _ in range(count):
        with requests.Session() as link:
            user = User(horizon, link)
            user.log_in("admin")
            asked, began_s = _asked(metrics), time.monotonic()
            shown = user.get(MAP)
            took_ms = (time.monotonic() - began_s) * 1000
            _check(shown)
            yield took_ms, len(shown.text.encode()), _asked(metrics) - asked


def _check(shown: Shown) -> None:
    assert shown.problem is None, shown.problem
    assert shown.tree.xpath("//tr[@data-host]"), shown.text[:2000]


def _asked(metrics: int) -> int:
    """Requests that vp-api has answered."""
    text = requests.get(f"http://127.0.0.1:{metrics}/metrics", timeout=60).text
    return sum(int(float(number)) for number in _ASKED.findall(text))


def _all_pages(horizon: str) -> Numbers:
    hosts: set[str] = set()
    pages, there, began_s = 0, MAP, time.monotonic()
    with requests.Session() as link:
        user = User(horizon, link)
        user.log_in("admin")
        while there:
            shown = user.get(there)
            _check(shown)
            pages += 1
            hosts.update(shown.tree.xpath("//tr/@data-host"))
            there = next(iter(shown.tree.xpath("//a[@rel='next']/@href")), "")
            there = f"{MAP}{there}" if there.startswith("?") else there
    assert len(hosts) == SIZE.hosts, len(hosts)
    return {"all_pages_ms": (time.monotonic() - began_s) * 1000, "pages": pages}


BENCHMARK = Benchmark(
    name="dashboard",
    about="the heat map of 1000 hosts in Horizon, cold: 95th percentile of 20",
    budgets={
        "heatmap_1000_hosts_ms": scaled(1000.0),
        "page_kib": fixed(500),
        "api_calls": fixed(3),
    },
    measure=cache(measure),
)


if __name__ == "__main__":
    sys.exit(command_line(BENCHMARK))
