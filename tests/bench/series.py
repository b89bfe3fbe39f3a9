# SPDX-License-Identifier: Apache-2.0
"""What agents' series cost: how many a host has, what a scrape takes, and what they take of a real
Prometheus, which scrapes that many hosts from one process here.
"""

import argparse
import re
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.request import urlopen

from prometheus_client import generate_latest

from nova_vp.core.types.cpu_time import CpuUse
from tests import prometheus
from tests.bench.harness import Benchmark, CannotMeasure, Numbers, fixed, progress, run
from tests.decisions import a_decision, a_detection, a_view, facts
from vp_agent.publish.metrics import ServersShown, Sources, Tally, registry_of

HOSTS, SERVERS = 100, 20
SCRAPE_S = 5
SCRAPES = 12
HOST = "compute-00000"
ROUNDS = 20


def page(shown: ServersShown) -> tuple[bytes, float]:
    """What a host of 20 servers shows, one of them degraded, and the milliseconds to make it."""
    about = {"cpu_use": CpuUse(9.0, 1)}
    first = a_view(1, detection=a_detection(), **about)
    decision = a_decision(first, *(a_view(number, **about) for number in range(2, SERVERS + 1)))
    tally = Tally()
    tally.decided(decision, ())
    registry = registry_of(
        HOST,
        tally,
        Sources(
            last=lambda: decision,
            host_info=lambda: facts(HOST),
            sent_at_s=lambda: 1.0,
            calls=dict,
            is_listening=lambda: True,
            servers_shown=lambda: shown,
            is_broker_reachable=lambda: True,
        ),
    )
    took_s = []
    for _ in range(ROUNDS):
        began_s = time.process_time()
        text = generate_latest(registry)
        took_s.append(time.process_time() - began_s)
    return text, min(took_s) * 1000


def series_in(text: bytes) -> int:
    return sum(1 for line in text.splitlines() if line and not line.startswith(b"#"))


def measure(hosts: int) -> Numbers:
    pages = {shown: page(shown) for shown in ServersShown}
    found: dict[str, float] = {
        f"series_{shown.value}": series_in(text) for shown, (text, _) in pages.items()
    }
    text, scrape_ms = pages[ServersShown.ALL]
    found |= {"scrape_bytes_all": len(text), "scrape_ms_all": scrape_ms}
    if prometheus.BINARY is None:
        raise CannotMeasure("Prometheus is not installed: tools/install-debian-packages")
    with (
        tempfile.TemporaryDirectory(prefix="vp-bench-") as folder,
        serving(text) as port,
        prometheus.running(Path(folder), config(port, hosts)) as url,
    ):
        return found | of_prometheus(url, hosts)


def of_prometheus(url: str, hosts: int) -> Numbers:
    asked = own_metrics(url)
    began_mib, began_s = asked("process_resident_memory_bytes") / 2**20, time.monotonic()
    while time.monotonic() < began_s + SCRAPES * SCRAPE_S:
        progress(f"Prometheus scrapes {hosts} hosts: {asked('prometheus_tsdb_head_series'):.0f}")
        time.sleep(SCRAPE_S)
    first = {name: asked(name) for name in ("process_cpu_seconds_total", APPENDED)}
    time.sleep(SCRAPES * SCRAPE_S)
    cpu_s, samples = (asked(name) - before for name, before in first.items())
    series = asked("prometheus_tsdb_head_series")
    held_mib = asked("process_resident_memory_bytes") / 2**20
    return {
        "hosts": hosts,
        "prometheus_series": series,
        "prometheus_mib": held_mib,
        "prometheus_kib_per_series": (held_mib - began_mib) * 1024 / series,
        "prometheus_us_per_sample": cpu_s / samples * 1e6,
    }


APPENDED = "prometheus_tsdb_head_samples_appended_total"


def own_metrics(url: str) -> Callable[[str], float]:
    """Of the Prometheus there; summed over labels."""

    def asked(name: str) -> float:
        with urlopen(f"{url}/metrics", timeout=30) as answer:
            text = answer.read().decode()
        return sum(map(float, re.findall(rf"^{name}(?:\{{[^}}]*\}})? (\S+)$", text, re.M)))

    return asked


@contextmanager
def serving(text: bytes) -> Iterator[int]:
    """Answers /N as host N, whose servers are its own."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            number = int(self.path.strip("/"))
            told = text.replace(HOST.encode(), b"compute-%05d" % number)
            told = told.replace(b"-0000-4000-8000-", b"-%04x-4000-8000-" % number)
            self.send_response(200)
            self.send_header("Content-Length", str(len(told)))
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.end_headers()
            self.wfile.write(told)

        def log_message(self, *_: object) -> None:
            """A scrape is no news."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()


def config(port: int, hosts: int) -> str:
    targets = "\n".join(
        f"      - {{targets: ['127.0.0.1:{port}'], "
        f"labels: {{__metrics_path__: /{number}, host: '{number}'}}}}"
        for number in range(hosts)
    )
    head = f"global: {{scrape_interval: {SCRAPE_S}s, scrape_timeout: {SCRAPE_S}s}}\n"
    return f"{head}scrape_configs:\n  - job_name: nova-vp-agent\n    static_configs:\n{targets}\n"


def benchmark(hosts: int) -> Benchmark:
    return Benchmark(
        name="series",
        about=f"the series of a host with {SERVERS} servers, and what they take of Prometheus",
        budgets={
            "series_all": fixed(200 + 17 * SERVERS),
            "series_degraded": fixed(220),
            "series_none": fixed(200),
        },
        measure=lambda: measure(hosts),
    )


BENCHMARK = benchmark(HOSTS)


def main() -> int:
    parser = argparse.ArgumentParser(description=BENCHMARK.about)
    parser.add_argument("--hosts", type=int, default=HOSTS, help=f"(default {HOSTS})")
    parser.add_argument("--json", action="store_true", help="the numbers alone, as JSON")
    given = parser.parse_args()
    return run(benchmark(given.hosts), as_json=given.json)


if __name__ == "__main__":
    sys.exit(main())
