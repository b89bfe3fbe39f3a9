# SPDX-License-Identifier: Apache-2.0
"""Against Watcher's noisy-neighbour strategy on the same lab: from the moment that a neighbour
turns hostile to the victim's relief, and what each of both moved for it.

Real: Nova, guests, the modelled caches, Watcher's three services and its migration. Not: Gnocchi,
which is answered for from the occupancy of the modelled caches, sampled every second.
"""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from openstack.compute.v2.server import Server
from openstack.connection import Connection
from rich.console import Console
from rich.table import Table

from testbed.lab import cloud, settings
from testbed.lab.lag_meter import LagMeter
from testbed.lab.monitor import LabMonitor, Rate
from tests.bench.harness import MACHINE_MS, measure_machine_ms, progress
from tests.lab.hosts import set_mode, wait_until_homed
from tests.watcher import gnocchi, occupancy, services

WHO = ("nova_vp", "watcher_mended", "watcher")
"""Watcher as it is published cannot migrate; so it is measured mended as well."""
HOST = "vp1"
HOSTS = ("vp1", "vp2")
FILLER = ("filler", "vp.small", "work=compute")
VICTIM = ("victim", "vp.tiny", "work=chase:384")
PRIORITY = {"victim": "1", "filler": "5", "neighbour": "9"}
"""For Watcher, which is told by the operator who matters: the lower the more."""
PERIOD_S = 100
"""Watcher's default: it compares the mean of this span with that of the span before."""
AUDIT_EVERY_S = 10
GIVE_UP_S = 300
RELIEVED_RATIO = 0.9
STEADY = 5
"""So many rates in a row, one a second, have to be as good as that."""


@dataclass
class Scene:
    """The three guests on one host; the neighbour is calm at first."""

    admin: Connection
    calm_s: int
    watch: LabMonitor = field(default_factory=lambda: LabMonitor(HOST))
    debt: LagMeter = field(default_factory=lambda: LagMeter(HOST))
    servers: dict[str, Server] = field(default_factory=dict)

    def boot(self) -> None:
        noisy = f"work=compute@until={self.calm_s},stream:8192"
        for name, flavor, work in (FILLER, VICTIM, ("neighbour", "vp.tiny", noisy)):
            metadata = {"watcher-priority": PRIORITY[name]}
            server = cloud.boot(
                self.admin, f"bench-{name}", flavor, work, host=HOST, metadata=metadata
            )
            self.servers[name] = server
            wait_until_homed(HOST, server.id)
            self.watch.add(name, server.id)

    def relief(self, give_up_s: float) -> dict[str, Any]:
        """Waits for the neighbour's switch, then until the victim is well again, or gives up."""
        victim = self.watch.servers["victim"].console
        neighbour = self.watch.servers["neighbour"].console
        cloud.wait_for(lambda: neighbour.switches, "the switch", deadline_s=self.calm_s + 60)
        began_at = neighbour.switches[-1].at
        solo_ops = victim.median_ops(began_at - 10, began_at)
        end_at = began_at + give_up_s
        relieved = RELIEVED_RATIO * solo_ops

        def seen() -> float | None:
            return well_again(victim.rates, began_at, relieved) or (time.time() > end_at) * end_at

        well_at = cloud.wait_for(seen, "relief", deadline_s=give_up_s + 30)
        hurt = [rate.ops for rate in victim.rates if began_at + 1 < rate.at < well_at]
        return {
            "seconds_to_relief": round(well_at - began_at, 1) if well_at < end_at else None,
            "victim_while_hurt_ratio": round(median(hurt) / solo_ops, 3) if hurt else None,
            "victim_afterwards_ratio": round(median(self._next_rates(well_at)) / solo_ops, 3),
            "debt_ratio": round(self.debt.recent_ratio(30.0), 4),
            "moved_on_the_host": {
                name: len([at for at, _ in one.moves if at > began_at])
                for name, one in self.watch.servers.items()
                if cloud.server_host(self.admin, self.servers[name]) == HOST
            },
            "live_migrations": self._migrations(),
        }

    def _next_rates(self, at: float) -> Sequence[int]:
        rates = self.watch.servers["victim"].console.rates

        def enough() -> list[int] | None:
            later = [rate.ops for rate in rates if rate.at > at]
            return later if len(later) >= 2 * STEADY else None

        return cloud.wait_for(enough, "the victim's rates afterwards", deadline_s=60)

    def _migrations(self) -> list[str]:
        found = self.admin.compute.get("/os-migrations").json()["migrations"]
        mine = {server.id: name for name, server in self.servers.items()}
        return [
            f"{mine[one['instance_uuid']]}: {one['source_compute']} -> {one['dest_compute']}, "
            f"{one['status']}"
            for one in found
            if one["instance_uuid"] in mine
        ]

    def close(self) -> None:
        self.watch.close()
        self.debt.close()
        cloud.delete(self.admin, *self.servers.values())


def well_again(rates: Sequence[Rate], began_at: float, relieved_ops: float) -> float | None:
    """When the victim began to be well for good, once it was hurt at all."""
    since = [rate for rate in rates if rate.at > began_at]
    first_hurt = next((n for n, rate in enumerate(since) if rate.ops < relieved_ops), None)
    if first_hurt is None:
        return None
    later = since[first_hurt:]
    for n in range(len(later) - STEADY + 1):
        if all(rate.ops >= relieved_ops for rate in later[n : n + STEADY]):
            return later[n].at
    return None


@contextmanager
def scene(admin: Connection, calm_s: int) -> Iterator[Scene]:
    one = Scene(admin, calm_s)
    try:
        one.boot()
        yield one
    finally:
        one.close()


def measure(period_s: int, who: Sequence[str]) -> dict[str, Any]:
    services.install()
    _lab("up", "--hosts", "2")
    runs: dict[str, Callable[[], dict[str, Any]]] = {
        "nova_vp": lambda: with_ours(admin),
        "watcher_mended": lambda: with_watcher(admin, period_s, is_mended=True),
        "watcher": lambda: with_watcher(admin, period_s, is_mended=False),
    }
    try:
        admin = cloud.connect()
        found = {}
        for name in who:
            progress(f"{name} …")
            found[name] = runs[name]()
            progress(f"{name}: {found[name]}")
        return {**found, "watcher_period_s": period_s}
    finally:
        _lab("down")


def _lab(*argv: str) -> None:
    subprocess.run([str(settings.LAB / "lab"), *argv], check=True, stdout=sys.stderr)


def with_ours(admin: Connection) -> dict[str, Any]:
    set_mode(HOST, "enforce")
    try:
        with scene(admin, calm_s=30) as one:
            return one.relief(give_up_s=60)
    finally:
        set_mode(HOST, "observe")


def with_watcher(admin: Connection, period_s: int, *, is_mended: bool) -> dict[str, Any]:
    """Our agents home arrivals here too, and otherwise only watch."""
    # History for both spans that it compares, and its services start meanwhile.
    with scene(admin, calm_s=2 * period_s + 60) as one:
        names = {
            admin.compute.get_server(server.id).instance_name: server.id
            for server in one.servers.values()
        }
        measures = gnocchi.Measures(lambda: _occupancy(names))
        try:
            with gnocchi.serving(measures) as url:
                return _audited(one, url, period_s, is_mended)
        finally:
            measures.close()


def _audited(one: Scene, gnocchi_url: str, period_s: int, is_mended: bool) -> dict[str, Any]:
    watcher = services.Watcher(gnocchi_url, is_mended=is_mended)
    try:
        watcher.audit("noisy_neighbor", AUDIT_EVERY_S, {"period": period_s})
        found = one.relief(GIVE_UP_S)
        return {**found, "actions": [action["state"] for action in watcher.actions()]}
    finally:
        watcher.close()


def _occupancy(names: dict[str, str]) -> dict[str, float]:
    """By server; one that has moved is found on its new host."""
    held = {name: held for host in HOSTS for name, held in occupancy.read(host).items()}
    return {server_id: held[name] for name, server_id in names.items() if name in held}


def show(found: dict[str, Any]) -> None:
    table = Table(title="from a neighbour's turn to the victim's relief, on the same lab")
    runs = {name: run for name, run in found.items() if isinstance(run, dict)}
    for heading in ("", *runs):
        table.add_column(heading)
    for row in dict.fromkeys(key for run in runs.values() for key in run):
        table.add_row(row.replace("_", " "), *(str(run.get(row, "")) for run in runs.values()))
    Console().print(table)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--json", action="store_true", help="the numbers alone, as JSON")
    parser.add_argument(
        "--period", type=int, default=PERIOD_S, metavar="S", help="Watcher's, default: its own"
    )
    parser.add_argument("--only", choices=WHO, help="one of them")
    arguments = parser.parse_args()
    who = [arguments.only] if arguments.only else WHO
    found = {MACHINE_MS: measure_machine_ms(), **measure(arguments.period, who)}
    if arguments.json:
        print(json.dumps(found))
    else:
        show(found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
