# SPDX-License-Identifier: Apache-2.0
"""vp-api on a large cloud: 10 000 VPs on 1000 hosts with a day of history in MariaDB.

`python -m tests.bench.api --rate 200 --seconds 60 --json`. Real keystone tokens, two processes of
vp-api. The mix: half of the requests list 100 VPs (an operator any page of all, or a tenant its
own), a quarter shows a host, a quarter a history (of a host or a VP; an hour, or a day's quarters).
Requests leave at their time whether earlier ones were answered or not, and each is as late as it
was answered after that time. Then a strict flavor is asked about for all hosts, one question after
the other, and the map of LLC domains of all hosts is read in pages of 100. Placement's list of
resource providers stands beside it.
"""

import argparse
import itertools
import json
import queue
import random
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cache
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

import requests
from sqlalchemy import create_engine, text

import vp_api  # noqa: F401  (first: it chooses threads before oslo.messaging is imported)
from nova_vp.db import schema
from nova_vp.db.filters import HostFilter, Span, VpFilter
from nova_vp.db.paging import Page
from nova_vp.db.read_api import ReadApi
from tests.bench.api_services import Services, Token, make_member, running, token
from tests.bench.harness import Benchmark, Numbers, fixed, progress, run, scaled
from tests.bench.usage import cpu_s, held_mib
from tests.plans import asked, count_rows, whole_reads
from tests.stored_cloud import Size, fill, host_name, project_id, server_id

APIS = 2
CLIENTS = 32
RATE, SECONDS = 200.0, 60.0
WARM_UP_S = 5.0
HOSTS, VPS_PER_HOST, MINUTES = 1000, 10, 24 * 60
PLACEMENT_ASKED = 40
WHAT_IF_ASKED = 20
STRICT = {"flavor": {"vcpus": 2, "extra_specs": {"vp:isolation": "strict", "vp:expects": "1"}}}
LATEST = {"OpenStack-API-Version": "performance-isolation latest"}


class Asked(NamedTuple):
    kind: str
    path: str
    token: str


class Answered(NamedTuple):
    kind: str
    at_s: float
    took_s: float
    is_right: bool


def measure(size: Size | None = None, rate: float = RATE, seconds: float = SECONDS) -> Numbers:
    size = size or Size(HOSTS, VPS_PER_HOST, MINUTES)
    with tempfile.TemporaryDirectory() as folder, running(Path(folder), APIS) as services:
        now = datetime.now(UTC).replace(microsecond=0)
        fill(schema.open_engine(services.conf), size, now)
        progress("the cloud is stored")
        admin = token(services.keystone, "admin", "admin")
        tenant = make_member(services.keystone, admin, "tenant")
        _give_servers(services, size, tenant)
        cpu = _used_s(services)
        answered = _load(services, _mix(size, admin, tenant), rate, WARM_UP_S + seconds)
        spent_s = {name: used - cpu[name] for name, used in _used_s(services).items()}
        return {
            **_latencies([one for one in answered if one.at_s >= WARM_UP_S], seconds),
            "full_scans": len(_full_scans(services, size, tenant, now)),
            **{f"{name}_cores": one / (WARM_UP_S + seconds) for name, one in spent_s.items()},
            "api_cpu_ms_per_request": 1000 * spent_s["api"] / len(answered),
            **_of_all_hosts(services, admin, size.hosts),
            # Of one process, once it has answered all of this.
            "api_held_mib": max(map(held_mib, services.pids["api"])),
            "placement_list_p95_ms": _placement_p95_ms(services, admin, size.hosts),
        }


def _give_servers(services: Services, size: Size, tenant: Token) -> None:
    """As if one project's had been the new tenant's always."""
    engine = schema.open_engine(services.conf)
    with engine.begin() as connection:
        for table in ("vps", "stays", "action_servers"):
            connection.execute(
                text(f"UPDATE {table} SET project_id = :new WHERE project_id = :old"),
                {"new": tenant.project_id, "old": project_id(size, 3, 1)},
            )
    count_rows(engine)


def _mix(size: Size, admin: Token, tenant: Token) -> Iterator[Asked]:
    chance = random.Random(1)
    while True:
        host, vp = chance.randrange(size.hosts), chance.randrange(size.vps_per_host)
        marker = quote(json.dumps([server_id(host, vp)]))
        yield Asked("list", f"/v1/vps?limit=100&marker={marker}", admin.text)
        yield Asked("host", f"/v1/hosts/{host_name(host)}", admin.text)
        yield Asked("list", "/v1/vps?limit=100", tenant.text)
        of = chance.choice([f"hosts/{host_name(host)}", f"vps/{server_id(host, vp)}"])
        span = chance.choice(["", f"?begin={_iso_ago(timedelta(hours=24))}&every=15"])
        yield Asked("history", f"/v1/{of}/history{span}", admin.text)


def _iso_ago(span: timedelta) -> str:
    return f"{datetime.now(UTC) - span:%Y-%m-%dT%H:%M:%SZ}"


def _load(services: Services, mix: Iterator[Asked], rate: float, seconds: float) -> list[Answered]:
    """Open loop: who falls behind is not asked less."""
    begun = time.monotonic()
    due: queue.Queue[tuple[float, Asked, str] | None] = queue.Queue()
    answered: list[Answered] = []
    urls = itertools.cycle(services.apis)

    def client() -> None:
        to = {url: HTTPConnection(url.removeprefix("http://"), timeout=60) for url in services.apis}
        while (entry := due.get()) is not None:
            at_s, one, url = entry
            is_right = _is_right(to[url], one)
            took_s = time.monotonic() - begun - at_s
            answered.append(Answered(one.kind, at_s, took_s, is_right))
        for connection in to.values():
            connection.close()

    clients = [threading.Thread(target=client, daemon=True) for _ in range(CLIENTS)]
    for thread in clients:
        thread.start()
    for number in range(int(rate * seconds)):
        at_s = number / rate
        time.sleep(max(0.0, begun + at_s - time.monotonic()))
        due.put((at_s, next(mix), next(urls)))
    for _ in clients:
        due.put(None)
    for thread in clients:
        thread.join(timeout=120)
    return answered


def _is_right(connection: HTTPConnection, one: Asked) -> bool:
    """By the leanest client there is: it shares the cores with those that it measures."""
    try:
        connection.request("GET", one.path, headers={"X-Auth-Token": one.token, **LATEST})
        answer = connection.getresponse()
        answer.read()
    except (OSError, HTTPException):
        connection.close()
        return False
    return answer.status == 200


def _latencies(answered: list[Answered], seconds: float) -> dict[str, float]:
    by_kind = defaultdict(list)
    for one in answered:
        by_kind[one.kind].append(one.took_s * 1000)
    end_s = max(one.at_s + one.took_s for one in answered) - WARM_UP_S
    return {
        "requests_per_s": len(answered) / max(seconds, end_s),
        "errors": sum(not one.is_right for one in answered),
        **{f"{kind}_p95_ms": _p95(by_kind[kind]) for kind in ("list", "host", "history")},
    }


def _p95(values: list[float]) -> float:
    return sorted(values)[int(len(values) * 0.95)]


def _full_scans(
    services: Services, size: Size, tenant: Token, now: datetime
) -> list[dict[str, object]]:
    """What the mix asks of the database, as MariaDB would answer it now."""
    browser = ReadApi(services.conf)
    marker = json.dumps([server_id(3, 1)])
    begin = now - timedelta(hours=24)
    with asked() as told:
        browser.list_vps(VpFilter(), Page("server_id", limit=100, marker=marker))
        browser.list_vps(VpFilter(project_id=tenant.project_id), Page("server_id", limit=100))
        browser.list_hosts(HostFilter(), Page("name", limit=100))
        browser.list_hosts(HostFilter(), Page("name", limit=100), has_heat=True)
        browser.list_heat(host_name(3), 100)
        browser.class_of(server_id(3, 1))
        browser.get_host(host_name(3))
        browser.host_history(host_name(3), begin, now, 15)
        browser.vp_history(server_id(3, 1), begin, now, 15)
        browser.vp_actions(server_id(3, 1), tenant.project_id, Span(), 0, 100)
    return whole_reads(schema.open_engine(services.conf), told)


def _of_all_hosts(services: Services, admin: Token, hosts: int) -> dict[str, float]:
    """`what_if_p95_ms` for 1000 hosts, or all if they are fewer; `heat_map_p95_ms` for a page, and
    `heat_map_of_all_ms` for one after the other."""
    headers, url = {"X-Auth-Token": admin.text, **LATEST}, services.apis[0]
    what_if, pages = [], []
    with requests.Session() as session:
        session.headers.update(headers)
        for _ in range(WHAT_IF_ASKED):
            begun = time.monotonic()
            told = session.post(f"{url}/v1/what-if?limit=1000", json=STRICT).json()["hosts"]
            what_if.append((time.monotonic() - begun) * 1000)
            assert len(told) == min(hosts, 1000)
            assert all(one["newcomer_ratio"] is not None for one in told)
        page = f"{url}/v1/hosts?heat=true&limit=100"
        while page:
            begun = time.monotonic()
            answer = session.get(page).json()
            pages.append((time.monotonic() - begun) * 1000)
            assert all(len(one["domains"]) == 2 for one in answer["hosts"])
            page = next((one["href"] for one in answer["links"]), None)
    return {
        "what_if_p95_ms": _p95(what_if),
        "heat_map_p95_ms": _p95(pages),
        "heat_map_of_all_ms": sum(pages),
    }


def _placement_p95_ms(services: Services, admin: Token, providers: int) -> float:
    engine = create_engine(services.placement_database)
    row = "INSERT INTO resource_providers (uuid, name, generation, root_provider_id) VALUES"
    with engine.begin() as connection:
        for number in range(providers):
            uuid = f"00000000-0000-4000-8000-{number:012d}"
            connection.execute(text(f"{row} (:uuid, :name, 0, NULL)"), _named(uuid, number))
        connection.execute(text("UPDATE resource_providers SET root_provider_id = id"))
    took = []
    headers = {"X-Auth-Token": admin.text, "OpenStack-API-Version": "placement latest"}
    with requests.Session() as session:
        for _ in range(PLACEMENT_ASKED):
            begun = time.monotonic()
            answer = session.get(f"{services.placement}/resource_providers", headers=headers)
            assert len(answer.json()["resource_providers"]) == providers
            took.append((time.monotonic() - begun) * 1000)
    return _p95(took)


def _named(uuid: str, number: int) -> dict[str, str]:
    return {"uuid": uuid, "name": host_name(number)}


def _used_s(services: Services) -> dict[str, float]:
    return {name: sum(map(cpu_s, pids)) for name, pids in services.pids.items()}


BENCHMARK = Benchmark(
    name="api",
    about="vp-api at 200 requests per second: 10 000 VPs on 1000 hosts with a day of history",
    budgets={
        "errors": fixed(0),
        "list_p95_ms": scaled(300.0),
        "host_p95_ms": scaled(100.0),
        "history_p95_ms": scaled(500.0),
        "full_scans": fixed(0),
        "what_if_p95_ms": scaled(1000.0),
        "heat_map_p95_ms": scaled(300.0),
    },
    measure=cache(measure),
)


def main() -> int:
    parser = argparse.ArgumentParser(description=BENCHMARK.about)
    parser.add_argument("--hosts", type=int, default=HOSTS, help="of 10 VPs each (default 1000)")
    parser.add_argument("--minutes", type=int, default=MINUTES, help="of history (default 1440)")
    parser.add_argument("--rate", type=float, default=RATE, help="requests per second")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="measured (default 60)")
    parser.add_argument("--json", action="store_true", help="the numbers alone, as JSON")
    given = parser.parse_args()
    size = Size(given.hosts, VPS_PER_HOST, given.minutes)
    asked_for = replace(BENCHMARK, measure=lambda: measure(size, given.rate, given.seconds))
    return run(asked_for, as_json=given.json)


if __name__ == "__main__":
    sys.exit(main())
