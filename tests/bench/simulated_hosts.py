# SPDX-License-Identifier: Apache-2.0
"""Many agents in one process, as the bus sees them: what they send, when, and how often.

Each host has 20 VPs and sends a digest and a report about every minute, and both at once when the
state of a VP changes materially. The texts are those of a real agent, with names, numbers and the
latest action filled in: making them anew would cost this machine more than the service.
"""

import argparse
import copy
import heapq
import random
import signal
import sys
import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from oslo_service import backend

backend.init_backend(backend.BackendType.THREADING)

from oslo_config import cfg  # noqa: E402

from nova_vp import conf as options  # noqa: E402
from nova_vp import wire  # noqa: E402
from nova_vp.core.types.action import Outcome, Result  # noqa: E402
from nova_vp.rpcapi import DigestAPI, ReportAPI  # noqa: E402
from nova_vp.rpctransport import Bus  # noqa: E402
from nova_vp.server_override import NO_OVERRIDE  # noqa: E402
from nova_vp.signing.identity import Identity  # noqa: E402
from nova_vp.signing.keyring import ToldKeys  # noqa: E402
from nova_vp.signing.senders import Process  # noqa: E402
from tests.decisions import a_decision, a_view, an_action, facts, uuid_of  # noqa: E402
from vp_agent.loop.overrides import CloudOverrides  # noqa: E402
from vp_agent.publish.bus import Sender  # noqa: E402
from vp_agent.publish.digest import digest  # noqa: E402
from vp_agent.publish.report import report  # noqa: E402
from vp_agent.publish.schedule import JITTER_RATIO  # noqa: E402

VPS = 20
WITH_HISTORY = 4
"""VPs of a host that have been moved: each report repeats their last actions."""
REFRESH_S = 60.0
FLAVORS, IMAGES = 20, 10
POOL = 500
"""Sets of measured numbers to take from, so that no two reports are alike."""
TOLD = CloudOverrides(1, {uuid_of(1): NO_OVERRIDE})
"""As a host soon is: else each of its reports would be answered with what is ordered."""
SEAT = wire.seat_of((1,), is_strict=False)
THREADS = 2


class Texts:
    """A real report and digest, cut to pieces once."""

    def __init__(self, dice: random.Random) -> None:
        self._dice = dice
        history = tuple(
            Outcome(an_action(f"@ACTION{n}@"), Result.APPLIED, 10.0 + n, "moved") for n in range(2)
        )
        self._metrics = [self._some_metrics() for _ in range(POOL)]
        self._quiet = [self._vp(a_view(1, state)) for state in range(9)]
        self._moved = [self._vp(a_view(1, state, history=history)) for state in range(9)]
        order, decision = wire.MessageVersion(11, 22), a_decision(a_view(1))
        self._report = _cut(wire.compact({**report(decision, facts("@HOST@"), order), "vps": []}))
        small = digest(decision, facts("@HOST@"), order, 10.0)
        small |= {"known": "@KNOWN@", "classes": "@CLASSES@", "seats": "@SEATS@"}
        self._digest = _cut(wire.compact(small))

    def report(self, host: "Host") -> str:
        vps = ",".join(self._fill(host, vp) for vp in range(VPS))
        text = _fill_head(self._report, host)
        return text.replace('"vps":[]', f'"vps":[{vps}]')

    def digest(self, host: "Host") -> str:
        classes = wire.pack_classes(dict(zip(host.uuids, host.states, strict=True)))
        text = _fill_head(self._digest, host).replace("@KNOWN@", host.known)
        return text.replace("@CLASSES@", classes).replace("@SEATS@", host.seats)

    def _fill(self, host: "Host", vp: int) -> str:
        pieces = self._moved if vp < WITH_HISTORY else self._quiet
        text = pieces[host.states[vp]].replace("@UUID@", host.uuids[vp])
        number = host.number * VPS + vp
        text = text.replace("@FLAVOR@", f"flavor-{number % FLAVORS}")
        text = text.replace("@IMAGE@", uuid_of(number % IMAGES))
        text = text.replace("@METRICS@", self._dice.choice(self._metrics))
        for nth in (0, 1):
            text = text.replace(f"@ACTION{nth}@", f"e1-{vp}-{host.changes + nth}")
        return text

    def _vp(self, view: object) -> str:
        """With marks where VPs differ."""
        told = facts(told=TOLD)
        (vp,) = report(a_decision(view), told, wire.MessageVersion(1, 1))["vps"]  # type: ignore[arg-type]
        marked = {**vp, "flavor": "@FLAVOR@", "image": "@IMAGE@", "metrics": "@METRICS@"}
        text = wire.compact(marked).replace('"@METRICS@"', "@METRICS@")
        return text.replace(uuid_of(1), "@UUID@")

    def _some_metrics(self) -> str:
        names = ("mpki", "l2_mpki", "memory_factor", "cpi", "cpu_cores", "misses_per_s")
        values = {name: round(self._dice.uniform(0, 50), 6) for name in names}
        return wire.compact({**values, "remote_ratio": 0.1, "running_ratio": 1.0})


def _cut(text: str) -> str:
    return text.replace('"epoch":11', '"epoch":@EPOCH@').replace('"seq":22', '"seq":@SEQ@')


def _fill_head(text: str, host: "Host") -> str:
    text = text.replace("@HOST@", host.name).replace("@EPOCH@", "1")
    return text.replace("@SEQ@", str(host.sequence))


class Host:
    def __init__(self, number: int, dice: random.Random) -> None:
        self.number = number
        self.name = f"compute-{number:05d}"
        self.uuids = [str(uuid.UUID(int=dice.getrandbits(128), version=4)) for _ in range(VPS)]
        self.states = [dice.randrange(9) for _ in range(VPS)]
        self.known = wire.pack_known(self.uuids)
        self.seats = wire.pack_seats(dict.fromkeys(self.uuids, SEAT))
        self.sequence = 0
        self.changes = 0

    def change(self, dice: random.Random) -> None:
        vp = dice.randrange(VPS)
        self.states[vp] = (self.states[vp] + dice.randrange(1, 9)) % 9
        self.changes += 1


class Due(NamedTuple):
    at_s: float
    host: Host
    """Compared never: no two moments are the same."""
    refreshes: int
    """The message that it follows; it lapses when another was sent since. -1: a change."""


class Agents:
    """Of some hosts, on one thread; `sent` says what was, and when."""

    def __init__(self, hosts: list[Host], churn: float, sender_of: Callable[[str], Sender]) -> None:
        """`churn`: material changes of a host per minute. `sender_of`: a host, by its name."""
        self._dice = random.Random(hosts[0].number)
        self._churn_per_s = churn / 60
        self._senders = {host.name: sender_of(host.name) for host in hosts}
        self.sent: list[str] = []
        self._texts = Texts(self._dice)
        now_s = time.monotonic()
        self._due: list[Due] = []
        for host in hosts:
            first_s = now_s + self._dice.uniform(0, REFRESH_S)
            heapq.heappush(self._due, Due(first_s, host, 0))
            self._push_change(host, first_s)

    def run(self, stop: threading.Event) -> None:
        while not stop.wait(max(self._due[0].at_s - time.monotonic(), 0.0)):
            due = heapq.heappop(self._due)
            if due.refreshes < 0:
                due.host.change(self._dice)
                self._push_change(due.host, due.at_s)
            elif due.refreshes != due.host.sequence:
                continue
            self._publish(due.host)

    def _publish(self, host: Host) -> None:
        host.sequence += 1
        small, full = self._texts.digest(host), self._texts.report(host)
        now_s = time.monotonic()
        try:
            self._senders[host.name].send(small, full)
        finally:
            refresh_s = REFRESH_S * self._dice.uniform(1 - JITTER_RATIO, 1 + JITTER_RATIO)
            heapq.heappush(self._due, Due(now_s + refresh_s, host, host.sequence))
        self.sent.append(f"{now_s:.4f} {host.name} {host.sequence}\n")

    def _push_change(self, host: Host, after_s: float) -> None:
        if self._churn_per_s:
            next_s = after_s + self._dice.expovariate(self._churn_per_s)
            heapq.heappush(self._due, Due(next_s, host, -1))


def one_connection(conf: cfg.ConfigOpts) -> Callable[[str], Sender]:
    """Each signs in its own name; a connection each would be more than this machine has."""
    bus = Bus(Identity(conf, Process.AGENT, ToldKeys, "everybody"))

    def sender_of(host: str) -> Sender:
        own = copy.copy(bus)
        own.identity = Identity(conf, Process.AGENT, ToldKeys, host)
        return Signed(DigestAPI(own), ReportAPI(own))

    return sender_of


class Signed:
    """`vp_agent.publish.bus.BusSender`, over a bus that is there."""

    def __init__(self, digests: DigestAPI, reports: ReportAPI) -> None:
        self._digests, self._reports = digests, reports

    def send(self, digest_text: str, report_text: str) -> None:
        self._digests.digest(digest_text)
        self._reports.report(report_text)

    def send_digest(self, text: str) -> None:
        self._digests.digest(text)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--url", required=True)
    parser.add_argument("--keys", required=True)
    parser.add_argument("--hosts", type=int, required=True)
    parser.add_argument("--churn", type=float, required=True)
    parser.add_argument("--log", type=Path, required=True)
    given = parser.parse_args()
    conf = cfg.ConfigOpts()
    options.register_all(conf)
    conf([], default_config_files=[])
    conf.set_override("transport_url", given.url, group="bus")
    conf.set_override("keys_directory", given.keys, group="bus")
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    dice = random.Random(1)
    hosts = [Host(number, dice) for number in range(given.hosts)]
    agents = [Agents(hosts[n::THREADS], given.churn, one_connection(conf)) for n in range(THREADS)]
    threads = [threading.Thread(target=each.run, args=(stop,)) for each in agents]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with given.log.open("w") as log:
        for each in agents:
            log.writelines(each.sent)
    return 0


if __name__ == "__main__":
    sys.exit(main())
