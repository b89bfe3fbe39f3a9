# SPDX-License-Identifier: Apache-2.0
"""`python -m tests.lab.faults`: escalations while everything that takes part in them dies.

One round: the victim stands beside a silent storm, the storm is let loose, something dies at a
named point, and something else with it. At the end Nova's own list of migrations must equal the
ledger, the victim must be helped, and nothing of ours may be left. Needs a lab that is up.
"""

import argparse
import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

from nova_vp.db.records import Escalation
from nova_vp.escalation_status import Status
from nova_vp.service.failpoints import VARIABLE
from testbed.lab import cloud, processes, settings
from testbed.lab.processes import CONTROLLER, Address
from testbed.lab.supervise import Service, write_atomically
from tests.lab.compute_nodes import wait_until_usable
from tests.lab.held import Given, Held, leftovers, orphans
from tests.lab.hosts import set_mode
from tests.lab.operators import host_conf, reconfigured
from tests.lab.stage import (
    BUDGETS,
    HOSTILE,
    HOSTS,
    IMPATIENT,
    LAB,
    QUIET,
    SOFT,
    SOURCE,
    Residents,
    Scene,
    between_two_storms,
    three_hosts,
)

WORKERS = ("vp-scheduler", "vp-scheduler-2")
AGENT = f"vp-agent@{SOURCE}"
OF_WORKER = ("ledger-commit", "acknowledgement", "nova-call", "completion")
OF_AGENT = ("escalation-sent", "prepared")
QUICK = f"""
[vp_scheduler]
escalation_mode = enforce{BUDGETS}escalation_lease_s = 5
escalation_settle_s = 5
escalation_host_down_s = 5
[cloud]
timeout = 5
"""
NO_HOMING = "[controller_initial_placement]\nhome_on_arrival = never"
REFUSALS = 3
ROUND_DEADLINE_S = 150
CRAWL_MIB_S = "1"
ENDS = {
    Status.COMPLETED: {"completed"},
    Status.ABORTED: {"cancelled", "error"},  # Nova 34 says error of one that had begun to run.
    Status.TIMED_OUT: {"cancelled"},
    Status.FAILED: {"error", "failed"},
}
"""What Nova says of a migration whose attempt ended so in the ledger."""


@dataclass(frozen=True, slots=True)
class Case:
    """Who dies at which point, and what else happens then."""

    point: str = ""
    also: str = ""

    @property
    def name(self) -> str:
        return " + ".join(filter(None, (self.point, self.also))) or "nothing dies"

    @property
    def services(self) -> tuple[str, ...]:
        if not self.point:
            return ()
        return (AGENT,) if self.point.partition("-")[2] in OF_AGENT else WORKERS


@dataclass(frozen=True, slots=True)
class Round:
    case: str
    faults: tuple[str, ...]
    took_s: float
    escalations: int
    migrations: int


# What else happens


def _abort(scene: Scene) -> None:
    """An operator's hand, as soon as Nova has begun."""

    def running() -> Any:
        rows = migrations_of(scene)
        return next((row for row in rows if row.status in ("running", "preparing")), None)

    migration = cloud.wait_for(running, "a migration to abort", deadline_s=ROUND_DEADLINE_S)

    def aborted() -> bool:
        try:
            server = scene.admin.compute.get_server(migration.server_id)
            scene.admin.compute.abort_server_migration(migration, server)
        except Exception as exc:  # Nova refuses what has not begun to run; it may be over, too.
            return "not in a valid state" not in str(exc) and "400" not in str(exc)
        return True

    cloud.wait_for(aborted, "Nova to take the abort", deadline_s=30)


class _Busy(BaseHTTPRequestHandler):
    refused = 0

    def do_GET(self) -> None:
        _Busy.refused += 1
        self.send_response(503)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def do_POST(self) -> None:
        self.do_GET()

    def log_message(self, *_: Any) -> None:
        """Not a word: this is what it is for."""


def _novas_503(_: Scene) -> None:
    cloud.stop("nova-api")
    server = ThreadingHTTPServer((settings.CONTROLLER_IP, settings.NOVA_PORT), _Busy)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    enough = _Busy.refused + REFUSALS
    try:
        cloud.wait_for(lambda: _Busy.refused >= enough, "Nova to be asked", deadline_s=60)
    finally:
        server.shutdown()
        server.server_close()
        cloud.start("nova-api")


def _host_dead(scene: Scene) -> None:
    """The source, while the guest is on its way."""

    def running() -> bool:
        return any(row.status == "running" for row in migrations_of(scene))

    cloud.wait_for(running, "a migration to begin", deadline_s=ROUND_DEADLINE_S)
    subprocess.run([LAB, "power-off", SOURCE], check=True)


def _killing(service: str) -> Callable[[Scene], None]:
    return lambda _: cloud.kill(service)


ALSO: dict[str, Callable[[Scene], None]] = {
    "agent killed": _killing(AGENT),
    "worker killed": _killing(WORKERS[0]),
    "rabbitmq killed": _killing("rabbitmq"),
    "mariadb killed": _killing("mariadb"),
    "nova-api 503": _novas_503,
    "aborted by an operator": _abort,
    "source host dead": _host_dead,
}
SLOW = {"aborted by an operator", "source host dead"}
"""They need a migration that lasts."""


def cases(*, is_full: bool) -> list[Case]:
    points = [f"{when}-{what}" for what in (*OF_AGENT, *OF_WORKER) for when in ("before", "after")]
    alone = [Case(), *(Case(point) for point in points)]
    if is_full:
        return [*alone, *(Case(point, also) for also in ALSO for point in points)]
    at = {"aborted by an operator": ("", "after-nova-call"), "source host dead": ("",)}
    return [
        *alone,
        *(Case(p, also) for also in ALSO for p in at.get(also, ("", "before-nova-call"))),
    ]


# One round


class Matrix:
    """The stage, set up once; every round begins with the victim at home and the storm silent."""

    def __init__(self, admin: Any) -> None:
        self._admin = admin
        self.residents = Residents(admin)
        self.scene = Scene(admin)
        between_two_storms(self.scene, victim=SOFT, aggressor={})

    def run(self, case: Case) -> Round:
        began_s = time.monotonic()
        scene, faults = self.scene, []
        scene.forget_escalations()
        floor = max((row.id for row in migrations_of(scene)), default=0)
        victim = self._held()
        if case.also in SLOW:
            cloud.shell(SOURCE, "virsh", "migrate-setspeed", victim.instance, CRAWL_MIB_S)
        with dying_at(case) as has_died:
            scene.let_loose("aggressor")
            if case.point:
                cloud.wait_for(has_died, f"{case.point}", deadline_s=ROUND_DEADLINE_S)
            else:
                scene.wait_for(lambda _: True, "an escalation")
        if case.also:
            ALSO[case.also](scene)
        if case.also == "source host dead":  # Its agent is owed the news until it is back.
            self._wait_for(self._is_given_up, "the ledger to give the host up", faults)
            subprocess.run([LAB, "up"], check=True)
        self._wait_for(self._is_settled, "the ledger to settle", faults)
        told = scene.fresh()
        rows = [row for row in migrations_of(scene) if row.id > floor]
        faults += compare(told, rows)
        if case.also not in SLOW:
            faults += self._helped(rows)
        faults += self._orphans(victim)
        if case.also == "source host dead":
            self._rebuild()
        else:
            self._reset()
        return Round(case.name, tuple(faults), time.monotonic() - began_s, len(told), len(rows))

    def _wait_for(self, probe: Callable[[], bool], what: str, faults: list[str]) -> None:
        try:
            cloud.wait_for(probe, what, deadline_s=ROUND_DEADLINE_S)
        except cloud.LabError as exc:
            faults.append(str(exc))

    def _is_given_up(self) -> bool:
        told = self.scene.fresh()
        return bool(told) and all(one.status is Status.FAILED for one in told)

    def _is_settled(self) -> bool:
        told = self.scene.fresh()
        return bool(told) and all(one.settled_at for one in told)

    def _helped(self, rows: list[Any]) -> list[str]:
        done = [row for row in rows if row.status == "completed"]
        return [] if len(done) == 1 else [f"{len(done)} migrations completed instead of one"]

    def _held(self) -> Held:
        server = self._admin.compute.get_server(self.scene.cast["victim"].id)
        return Held(server.id, server.instance_name, "kernel")

    def _orphans(self, victim: Held) -> list[str]:
        """On the host that it left, and on the one where nobody homes it."""
        host = cloud.server_host(self._admin, self.scene.cast["victim"])
        if host == SOURCE:
            return []
        found = [f"left on {SOURCE}: {what}" for what in leftovers(SOURCE, victim)]
        return found + [f"orphan on {host}: {what}" for what in orphans(host, victim, Given())]

    def _rebuild(self) -> None:
        """Its guests are gone, and the host came back with the configuration of any other."""
        self.scene.strike()
        for host, more in ((SOURCE, IMPATIENT), (HOSTILE, NO_HOMING), (QUIET, NO_HOMING)):
            host_conf(host).write_text(f"{host_conf(host).read_text()}\n{more}\n")
            cloud.stop(f"vp-agent@{host}")
            cloud.start(f"vp-agent@{host}")
        set_mode(SOURCE, "enforce")
        self.scene = Scene(self._admin)
        between_two_storms(self.scene, victim=SOFT, aggressor={})

    def _reset(self) -> None:
        scene, victim = self.scene, self.scene.cast["victim"]
        if self._admin.compute.get_server(victim.id).status == "ERROR":
            # Nova 34 says so of one whose migration was aborted, though it runs on.
            self._admin.compute.reset_server_state(victim, "active")
        scene.silence("aggressor")
        if cloud.server_host(self._admin, victim) != SOURCE:
            for host in HOSTS:  # All may have been cut off from their broker.
                wait_until_usable(self._admin, host)
            cloud.live_migrate(self._admin, victim, SOURCE)
        else:
            cloud.shell(SOURCE, "virsh", "migrate-setspeed", self._held().instance, "1000000")
        scene.wait_until_undisturbed("victim")


def migrations_of(scene: Scene) -> list[Any]:
    """Nova's own list."""
    kind = "live-migration"
    return [
        row
        for server in scene.cast.values()
        for row in scene.admin.compute.migrations(instance_uuid=server.id, migration_type=kind)
    ]


def compare(told: list[Escalation], rows: list[Any]) -> list[str]:
    """Where Nova's list and the ledger differ."""
    attempts = [one for escalation in told for one in escalation.attempts]
    ledger = {one.nova_id: one for one in attempts if one.nova_id is not None}
    nova = {row.id: row for row in rows}
    faults = [f"Nova's migration {id} is not in the ledger" for id in nova.keys() - ledger.keys()]
    faults += [f"the ledger's {id} is not in Nova's list" for id in ledger.keys() - nova.keys()]
    for id in nova.keys() & ledger.keys():
        row, one = nova[id], ledger[id]
        if row.server_id != one.server or row.status not in ENDS.get(one.status, ()):
            faults.append(f"{id}: {row.status} in Nova, {one.status.value} in the ledger")
    counts = Counter(one.nova_id for one in attempts if one.nova_id is not None)
    return faults + [f"{id} stands twice in the ledger" for id, n in counts.items() if n > 1]


# Dying


@contextmanager
def dying_at(case: Case) -> Iterator[Callable[[], bool]]:
    """The services run with the point in their environment, until one has died of it."""
    before = {name: processes.count_starts(Address.parse(name)) for name in case.services}
    with ExitStack() as stack:
        for name in case.services:
            stack.enter_context(_environment(name, {VARIABLE: case.point}))
            before[name] = processes.count_starts(Address.parse(name))
        yield lambda: any(
            processes.count_starts(Address.parse(n)) > before[n] or cloud.service_pid(n) is None
            for n in case.services
        )


@contextmanager
def _environment(name: str, more: dict[str, str]) -> Iterator[None]:
    """Restarted with it, and without it afterwards."""
    address = Address.parse(name)
    path = processes.control_folder(address.where) / "services" / f"{address.name}.json"
    text = path.read_text()
    service = Service.from_json(text)
    changed = {**service.environment, **more}
    try:
        _put(address, Service(**{**asdict(service), "environment": changed}))
        yield
    finally:
        _put(address, Service.from_json(text))


def _put(address: Address, service: Service) -> None:
    processes.stop(address)
    path = processes.control_folder(address.where) / "services" / f"{address.name}.json"
    write_atomically(path, service.to_json())
    processes.start(address)


@contextmanager
def second_worker() -> Iterator[None]:
    """Another vp-scheduler beside the first, from the same configuration."""
    folder = processes.control_folder(CONTROLLER) / "services"
    first = Service.from_json((folder / f"{WORKERS[0]}.json").read_text())
    log = str(processes.log_path(CONTROLLER, WORKERS[1]))
    second = Service(**{**asdict(first), "name": WORKERS[1], "log": log})
    processes.ensure_service(CONTROLLER, second)
    address = Address(WORKERS[1], CONTROLLER)
    cloud.wait_for(lambda: processes.service_pid(address), "the second worker", deadline_s=20)
    try:
        yield
    finally:
        processes.stop(address)
        (folder / f"{WORKERS[1]}.json").unlink()
        (processes.control_folder(CONTROLLER) / "stopped" / WORKERS[1]).unlink(missing_ok=True)


@contextmanager
def staged(admin: Any) -> Iterator[Matrix]:
    """Three hosts, two workers; nobody homes what arrives, so that an orphan shows."""
    with ExitStack() as stack:
        stack.enter_context(three_hosts(QUICK))
        stack.enter_context(second_worker())
        matrix = Matrix(admin)
        stack.callback(lambda: matrix.scene.strike())
        for host in (HOSTILE, QUIET):
            agent = f"vp-agent@{host}"
            stack.enter_context(reconfigured(host_conf(host), NO_HOMING, agent))
        yield matrix


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.lab.faults", description=__doc__)
    parser.add_argument("--times", type=int, default=1, help="rounds of each case")
    parser.add_argument("--full", action="store_true", help="every point with everything else")
    parser.add_argument("--only", action="append", default=[], help="cases whose name has this")
    parser.add_argument("--json", metavar="FILE", help="the rounds, too")
    given = parser.parse_args()
    chosen = [
        case
        for case in cases(is_full=given.full)
        if not given.only or any(word in case.name for word in given.only)
    ]
    rounds: list[Round] = []
    with staged(cloud.connect()) as matrix:
        for number in range(1, given.times + 1):
            for case in chosen:
                done = matrix.run(case)
                rounds.append(done)
                verdict = "; ".join(done.faults) or "well"
                print(f"{number:3} {done.case:48} {done.took_s:5.0f} s  {verdict}", flush=True)
    if given.json:
        with open(given.json, "w") as file:
            json.dump([asdict(one) for one in rounds], file, indent=2)
    bad = [one for one in rounds if one.faults]
    print(f"{len(rounds)} rounds on {len(HOSTS)} hosts, {len(bad)} with faults")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
