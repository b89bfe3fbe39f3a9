# SPDX-License-Identifier: Apache-2.0
"""`make overlay-demo`: an application of three tiers, with and without the calls of an overlay.

Guests of real QEMU have taps on a bridge and CPUs of the software PMU; the real agent runs the
shipped monitors, which see requests on the tap of the web tier. As in inTune (thesis 2013, 4.5.2.1)
each tier has three vCPUs on an island of two CPUs. Another server computes on one of four CPUs of
an island of its own, which has CPUs to lend.

Clients browse at first and bid then: half of the time most requests need the web tier, and half of
it the database. Limits for good give all tiers together as much CPU as `tune` leaves them. All rows
send the same requests for the same time, and count from the moment at which they begin.
"""

import argparse
import io
import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

from matplotlib import pyplot
from PIL import Image
from rich.console import Console
from rich.table import Table

from testbed import pictures
from testbed.lab import settings
from testbed.lab.lag_meter import MAX_RATIO
from testbed.lab.sessions import Mix, Request, Served, Sessions
from testbed.lab.waiting import wait_for
from tests.bench.harness import CannotMeasure, progress
from tests.bench.overlay_guests import (
    Loans,
    Meter,
    a_host,
    an_agent_of,
    an_overlay,
    layout_of,
    limit,
    uuid_of,
)
from tests.bench.paced_guests import Interface, PacedHost, build
from tests.tap_network import ADDRESS, BRIDGE, NoNetwork, a_network, missing_for_taps

REPORT = settings.ROOT / "overlay-demo-report.json"
PICTURE = settings.ROOT / "overlay-demo.png"
COLOURS = 32
TIERS = ("web", "app", "db")
OTHER = "mill"
ISLANDS = {"web": (0, 1), "app": (2, 3), "db": (4, 5), "others": (6, 7, 8, 9)}
KILOROUNDS = {"web": (220, 30), "app": (160, 170), "db": (5, 220)}
"""Of a request that browses, and of one that bids: 100 take about 10 ms of a modelled CPU."""
SPARE_TRACKS = "+idle+idle"
"""A tier uses all vCPUs of its guest, however many tracks its work has: three."""
BROWSE, BID = Request("GET", "/browse"), Request("POST", "/bid")
MIXES: Mapping[str, Mix] = {"browse": {BROWSE: 85, BID: 15}, "bid": {BROWSE: 15, BID: 85}}
MIX_S = 24.0
SESSIONS = 40
STATIC_CORES = {
    "1.5 1.5 1.5": (1.5, 1.5, 1.5),
    "2 2 1.5": (2, 2, 1.5),
    "1.5 2 2": (1.5, 2, 2),
    "2 1.5 2": (2, 1.5, 2),
    "1.75 2 1.75": (1.75, 2, 1.75),
}
"""Of web, app and db. The first are the source's; the others have in sum what `tune` leaves."""
BUSY = {"browse": ("web", "app"), "bid": ("app", "db")}
SWAPPED = {"browse": ("app", "db"), "bid": ("web", "app")}
CLASSES = "memory_s=2 interval_s=0.5 steps_down=5 retry_s=1"
"""Five tenths less leave an unneeded tier 1.5 cores, as the source limits all of them at first."""
WAITING = "cpu-waiting samples=2 most_cpus=1 lease_s=15"
WIDTH = 100
LEAST_GAIN = 1.05
"""Of tune over the best limits for good."""
ALONE, TUNE, BORROW, MISLED = "alone", "tune", "tune and borrow", "tune, classes swapped"


@dataclass(frozen=True, slots=True)
class Row:
    """What one arrangement came to."""

    name: str
    served: Mapping[str, Served]
    """By class; of all requests by an empty name."""
    per_s: Sequence[float]
    """In each second."""
    failed: int
    other_ops: float
    """Of the server beside the application, per second."""
    debt_ratio: float
    borrowed_cpus: float = 0.0
    """In the mean."""

    @property
    def requests_per_s(self) -> float:
        return self.served[""].per_s


def interfaces() -> dict[str, Interface]:
    network = ADDRESS.rpartition(".")[0]
    return {
        name: Interface(
            BRIDGE, f"tap-{name}", f"52:54:00:00:01:{number:02x}", f"{network}.{number}/24"
        )
        for number, name in enumerate(TIERS, 11)
    }


def address_of(tier: str) -> str:
    return interfaces()[tier].address.partition("/")[0]


def works() -> dict[str, str]:
    found = {}
    for tier, following in zip(TIERS, (*TIERS[1:], None), strict=True):
        browse, bid = KILOROUNDS[tier]
        costs = f"tier:browse={browse};bid={bid}"
        ask = f";next={address_of(following)}" if following else ""
        found[tier] = costs + ask + SPARE_TRACKS
    return {**found, OTHER: "compute"}


def request_classes(uuids: Mapping[str, str], servers_of: Mapping[str, Sequence[str]]) -> str:
    """The operator's line, at the web tier. `uuids`: of the tiers."""
    words = [f"request-classes server={uuids['web']}", CLASSES]
    for request in (BROWSE, BID):
        servers = ",".join(uuids[tier] for tier in servers_of[request.kind])
        words.append(f"'class.{request.kind}={request.method} {request.path}'")
        words.append(f"servers.{request.kind}={servers}")
    return " ".join(words)


def load(host: PacedHost, name: str) -> Row:
    """Both mixes, one after the other."""
    other = host.guests[OTHER]
    printed = other.lines()
    with (
        Meter(host, (*TIERS, OTHER)).running() as meter,
        Sessions(address_of("web"), MIXES["browse"], SESSIONS) as sessions,
    ):
        began_s = time.monotonic()
        for mix in MIXES.values():
            sessions.mix = mix
            until_s = time.monotonic() + MIX_S
            while time.monotonic() < until_s:
                other.lines()
                time.sleep(0.05)
        ended_s = time.monotonic()
    seconds = range(int(ended_s - began_s))
    row = Row(
        name,
        sessions.served(began_s, ended_s),
        [sessions.served(began_s + at_s, began_s + at_s + 1)[""].per_s for at_s in seconds],
        len(sessions.failed),
        other.mean_rate(printed) if other.lines() > printed else 0.0,
        meter.debt_ratio,
    )
    progress(f"{name}: {row.requests_per_s:.1f} requests/s, debt {row.debt_ratio:.1%}")
    return row


def limited(host: PacedHost, name: str, cores: Sequence[float | None]) -> Row:
    for tier, most in zip(TIERS, cores, strict=True):
        limit(host, tier, most)
    return load(host, name)


def coordinated(host: PacedHost, name: str, *monitors: str) -> Row:
    overlay = an_overlay(1, "shop", [uuid_of(host, tier) for tier in TIERS])
    with (
        an_agent_of(host, [overlay], layout_of(ISLANDS), monitors=monitors),
        Loans(host).running() as loans,
    ):
        row = load(host, name)
    progress(f"{name}: {loans.by_calls:.2f} CPUs borrowed in the mean")
    return replace(row, borrowed_cpus=loans.by_calls)


def alone(host: PacedHost) -> Row:
    """Without limits, and the other server computes nothing."""
    host.guests[OTHER].domain.suspend()
    try:
        return load(host, ALONE)
    finally:
        host.guests[OTHER].domain.resume()


def rows(host: PacedHost) -> Iterator[Row]:
    yield alone(host)
    for name, cores in STATIC_CORES.items():
        yield limited(host, f"limits {name}", cores)
    for tier in TIERS:
        limit(host, tier, None)
    uuids = {tier: uuid_of(host, tier) for tier in TIERS}
    classes = request_classes(uuids, BUSY)
    yield coordinated(host, TUNE, classes)
    yield coordinated(host, BORROW, classes, WAITING)
    yield coordinated(host, MISLED, request_classes(uuids, SWAPPED))


@contextmanager
def an_application() -> Iterator[PacedHost]:
    """All guests run, and the tiers answer. Raises CannotMeasure."""
    if missing := missing_for_taps():
        raise CannotMeasure(missing)
    build()  # From a network of one's own nothing can be downloaded.
    homes = {**{tier: tier for tier in TIERS}, OTHER: "others"}
    try:
        with a_network(), a_host(works(), ISLANDS, homes, interfaces()) as host:
            with Sessions(address_of("web"), MIXES["browse"], 1) as first:
                wait_for(lambda: first.answers, "the tiers to answer", deadline_s=60.0)
            yield host
    except NoNetwork as exc:
        raise CannotMeasure(str(exc)) from exc


def best_limits(found: Sequence[Row]) -> Row:
    return max(
        (row for row in found if row.name.startswith("limits")), key=lambda row: row.requests_per_s
    )


def table(found: Sequence[Row]) -> Table:
    first = next(row for row in found if row.name.startswith("limits"))
    title = "Three tiers on islands of two CPUs; answers in milliseconds"
    told = Table(title=title, title_justify="left")
    told.add_column("case", no_wrap=True)
    for heading in ("requests/s", "times", "browse p50", "p95", "bid p50", "p95", "deviation"):
        told.add_column(heading, justify="right")
    for row in found:
        every = row.served[""]
        told.add_row(
            row.name,
            f"{row.requests_per_s:.1f}",
            f"{row.requests_per_s / first.requests_per_s:.2f}",
            *(
                f"{number:.0f}"
                for request in (BROWSE, BID)
                for number in _percentiles(row.served.get(request.kind))
            ),
            f"{every.deviation_ms:.0f}",
        )
    return told


def _percentiles(served: Served | None) -> tuple[float, float]:
    return (served.p50_ms, served.p95_ms) if served else (0.0, 0.0)


def draw(path: Path, found: Sequence[Row]) -> None:
    figure, (rates, times) = pyplot.subplots(2, 1, figsize=(10, 8), layout="constrained")
    for row in found:
        rates.plot(range(1, len(row.per_s) + 1), row.per_s, label=row.name)
    rates.axvline(MIX_S, color="grey", linestyle="--", linewidth=1.2)
    rates.set_ylabel("requests per second")
    rates.set_xlabel("seconds; most requests browse, and bid from the dashed line on")
    rates.set_ylim(bottom=0)
    rates.legend(fontsize=8, ncols=4, loc="lower center", bbox_to_anchor=(0.5, 1.0), frameon=False)
    for number, (request, colour) in enumerate(((BROWSE, "tab:blue"), (BID, "tab:orange"))):
        at = [place + 0.3 * number for place in range(len(found))]
        both = [_percentiles(row.served.get(request.kind)) for row in found]
        most, halves = [p95 for _, p95 in both], [p50 for p50, _ in both]
        times.bar(at, most, 0.28, color=colour, alpha=0.4, label=f"{request.kind}: p95")
        times.bar(at, halves, 0.28, color=colour, label=f"{request.kind}: p50")
    times.set_xticks([place + 0.15 for place in range(len(found))], [row.name for row in found])
    times.tick_params(axis="x", labelsize=8, labelrotation=15)
    times.set_ylabel("milliseconds until the answer")
    times.legend(fontsize=8, ncols=4, loc="lower center", bbox_to_anchor=(0.5, 1.0), frameon=False)
    for axis in (rates, times):
        axis.grid(alpha=0.3)
    figure.suptitle("An application of three tiers whose requests change")
    png = io.BytesIO()
    figure.savefig(png, dpi=110)
    pyplot.close(figure)
    with Image.open(png) as image:
        pictures.write(image, path, COLOURS)


def judge(found: Sequence[Row]) -> str:
    """What is wrong with what was found; empty: nothing."""
    by_name = {row.name: row for row in found}
    worst = max(row.debt_ratio for row in found)
    if worst > MAX_RATIO:
        return (
            f"invalid: the machine was {worst:.1%} behind the modelled clock, at most "
            f"{MAX_RATIO:.0%}; end other work and repeat"
        )
    static = best_limits(found)
    gain = by_name[TUNE].requests_per_s / static.requests_per_s
    if gain < LEAST_GAIN:
        return f"tune serves {gain:.2f} times what {static.name} do, at least {LEAST_GAIN}"
    if by_name[BORROW].requests_per_s <= by_name[TUNE].requests_per_s:
        return "borrowed CPUs bring nothing"
    if by_name[MISLED].requests_per_s >= by_name[TUNE].requests_per_s / LEAST_GAIN:
        return "classes that are swapped do as well: it is not the calls that help"
    return ""


def run(measure: Callable[[], Sequence[Row]]) -> int:
    began_s = time.monotonic()
    try:
        found = measure()
    except CannotMeasure as exc:
        print(f"overlay-demo: {exc}", file=sys.stderr)
        return 2
    Console(width=WIDTH).print(table(found))
    REPORT.write_text(json.dumps([asdict(row) for row in found], indent=2) + "\n")
    draw(PICTURE, found)
    print(
        f"{time.monotonic() - began_s:.0f} s; report {REPORT.name}, picture {PICTURE.name}. "
        f"Requests that failed: {sum(row.failed for row in found)}"
    )
    problem = judge(found)
    if problem:
        print(f"overlay-demo: {problem}", file=sys.stderr)
    return int(bool(problem))


def measured() -> list[Row]:
    with an_application() as host:
        return list(rows(host))


def main() -> int:
    argparse.ArgumentParser(prog="make overlay-demo", description=__doc__).parse_args()
    return run(measured)


if __name__ == "__main__":
    sys.exit(main())
