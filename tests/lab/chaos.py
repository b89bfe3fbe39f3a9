# SPDX-License-Identifier: Apache-2.0
"""`make chaos SEED=… MINUTES=…`: operations of every kind against a lab, while all that takes part
is killed, frozen and cut off; nothing may be left behind.

The order of operations is made of the seed, one number for each: a run that was broken off goes on
where it was. `tests.lab.chaos_verdict` judges at the end. One JSON line, and exit status 1 for
anything that is wrong. `SABOTAGE=pin|lost|double` plants one fault, which must be found.
"""

import argparse
import json
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import requests
from openstack.exceptions import BadRequestException

from testbed.lab import cloud, settings
from testbed.lab.host import Host
from tests.lab.chaos_operations import FAULTS, OPERATIONS, NothingToDo, Storm
from tests.lab.chaos_verdict import Verdict, domains_of, judge
from tests.lab.hosts import HOSTS, domain_xml, order
from tests.lab.operators import API_URL, CONTROLLER_CONF, host_conf, reconfigured

LAB = str(settings.LAB / "lab")
METRICS_PORT = 9779
SERVED = f"metrics_address = 0.0.0.0\nmetrics_port = {METRICS_PORT}"
OF_HOSTS = (
    "[policy]\ncontrollers = initial_placement,rebalance,vp,overlays,permits,latency,merlin\n"
    # Where a host advises, newcomers wait for an operator: most of what can be accepted.
    "[controller_initial_placement]\nhome_on_arrival = enforce\n"
    f"[agent]\n{SERVED}"
)
OF_CONTROLLER = f"[vp_scheduler]\n{SERVED}"
ADDED = {CONTROLLER_CONF: OF_CONTROLLER, **{host_conf(host): OF_HOSTS for host in HOSTS}}
"""To files of configuration."""
ANSWERS_WITHIN_S = 5.0
PATIENCE_S = 90.0
"""For so long Nova may be busy with a server before an operator steps in."""
SETTLES_WITHIN_S = 600.0
"""A request that is lost is seen after PATIENCE_S, made again, and may be lost once more."""
PACE_S = 3.5
"""Faster, nothing would be well between two operations."""
REBOOTABLE = ("ACTIVE", "SHUTOFF", "PAUSED", "SUSPENDED")
DRAWS = 6
TEND_EVERY = 5
"""Operations, between which an operator looks after servers."""
LEAST_SERVERS = 3
"""With fewer there is little to be done: another one is made."""
SABOTAGE = ("pin", "lost", "double")


@dataclass
class Progress:
    seed: int
    number: int = 0
    """Of operations, those that nobody took included."""
    spent_s: float = 0.0
    done: dict[str, int] = field(default_factory=dict)
    refused: dict[str, int] = field(default_factory=dict)
    servers: list[str] = field(default_factory=list)
    """Ids of those that were made and not deleted."""
    to_reboot: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    """What Nova says of those that it put into ERROR, and that an operator deleted."""
    worst_answer_s: dict[str, float] = field(default_factory=dict)
    """By service."""

    @property
    def file(self) -> Path:
        return settings.STATE / f"chaos-{self.seed}.json"

    def save(self) -> None:
        self.file.write_text(json.dumps(asdict(self)))


ASKED = {
    "vp-api": API_URL,
    "vp-scheduler": f"http://{settings.CONTROLLER_IP}:{METRICS_PORT}/health",
    **{f"vp-agent@{host}": f"http://{Host(host).address}:{METRICS_PORT}/health" for host in HOSTS},
}
"""What needs nothing behind it: the versions of the API, and what is known of one's health."""


class Prober:
    """Asks each service each second."""

    def __init__(self, progress: Progress, is_cut_off: Callable[[str], bool]) -> None:
        self._progress = progress
        self._is_cut_off = is_cut_off
        self._closing = threading.Event()
        self._threads = [
            threading.Thread(target=self._run, args=(service,), name="prober", daemon=True)
            for service in ASKED
        ]
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        self._closing.set()
        for thread in self._threads:
            thread.join()

    def _run(self, service: str) -> None:
        worst = self._progress.worst_answer_s
        while not self._closing.wait(1.0):
            if self._is_cut_off(service):
                continue
            began_s = time.monotonic()
            fault = ""
            try:
                requests.get(ASKED[service], timeout=4 * ANSWERS_WITHIN_S)
            except requests.RequestException as exc:
                fault = first_line(exc)
            if self._is_cut_off(service):  # By now, perhaps.
                continue
            took_s = 4 * ANSWERS_WITHIN_S if fault else round(time.monotonic() - began_s, 2)
            if took_s > ANSWERS_WITHIN_S:
                say(f"{service} answers after {took_s} s: {fault}")
            worst[service] = max(worst.get(service, 0.0), took_s)


def main() -> int:
    parser = argparse.ArgumentParser(prog="make chaos", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--sabotage", choices=SABOTAGE)
    asked = parser.parse_args()
    subprocess.run([LAB, "up"], check=True)
    progress = read_progress(asked.seed)
    with ExitStack() as stack:
        stack.enter_context(reconfigured(CONTROLLER_CONF, OF_CONTROLLER, "vp-scheduler"))
        for host in HOSTS:
            stack.enter_context(reconfigured(host_conf(host), OF_HOSTS, f"vp-agent@{host}"))
        storm = Storm(cloud.connect(), progress.servers, progress.to_reboot, progress.failed, ADDED)
        for service in ASKED:  # Those above begin anew.
            storm.cut_off(service)
        cloud.wait_for(
            lambda: enforced(storm), "vp-api to take a mode", deadline_s=60, interval_s=1.0
        )
        blow(storm, progress, 60 * asked.minutes)
        settle(storm, progress)
        if asked.sabotage:
            plant(asked.sabotage, storm)
        verdict = judge(storm.admin, storm.servers)
        storm.vp.set_cloud_mode(None)
    return conclude(progress, verdict, is_whole=not asked.sabotage)


def read_progress(seed: int) -> Progress:
    """Of a run with this seed that was broken off; else of a new one, on a lab without servers."""
    progress = Progress(seed)
    if progress.file.exists():
        progress = Progress(**json.loads(progress.file.read_text()))
        say(f"goes on after operation {progress.number}")
    else:
        admin = cloud.connect()
        cloud.delete(admin, *admin.compute.servers(all_projects=True))
    return progress


def enforced(storm: Storm) -> bool:
    """Where no mode is set hosts only observe, and there is nothing to leave behind."""
    with suppress(*FAULTS):
        storm.vp.set_cloud_mode("enforce")
        return True
    return False


def blow(storm: Storm, progress: Progress, for_s: float) -> None:
    done, refused = Counter(progress.done), Counter(progress.refused)
    prober = Prober(progress, storm.is_cut_off)
    try:
        while progress.spent_s < for_s:
            began_s = time.monotonic()
            progress.number += 1
            dice = random.Random(f"{progress.seed}:{progress.number}")
            if progress.number % TEND_EVERY == 0:
                with suppress(*FAULTS):
                    tend(storm)
            is_poor = len(storm.servers) < LEAST_SERVERS
            for name in ("create",) if is_poor else drawn(dice, done):
                try:
                    OPERATIONS[name](storm, dice)
                    done[name] += 1
                except NothingToDo:
                    continue
                except FAULTS as exc:
                    refused[name] += 1
                    say(f"{progress.number} {name}: {first_line(exc)}")
                break
            time.sleep(max(0.0, began_s + PACE_S - time.monotonic()))
            progress.spent_s += time.monotonic() - began_s
            progress.done, progress.refused = dict(done), dict(refused)
            progress.save()
    finally:
        prober.close()
        storm.thaw()


def drawn(dice: random.Random, done: Counter[str]) -> list[str]:
    """What to do next, and instead where there is nothing to do that to: the rarest so far are the
    likeliest (P. Efraimidis, P. Spirakis, *Weighted random sampling with a reservoir*, 2006)."""
    keys = {name: dice.random() ** (1 + done[name]) for name in sorted(OPERATIONS)}
    return sorted(keys, key=keys.__getitem__, reverse=True)[:DRAWS]


def settle(storm: Storm, progress: Progress) -> None:
    """Everything runs again, Nova is done with all servers, and agents have given all back."""
    say("settling")
    if subprocess.run([LAB, "up"]).returncode:
        restart_nova_compute(*HOSTS)
        subprocess.run([LAB, "up"], check=True)
    cloud.wait_for(lambda: is_quiet(storm), "Nova", deadline_s=SETTLES_WITHIN_S, interval_s=2.0)
    progress.save()
    for overlay in storm.overlays():
        storm.vp.delete_overlay(overlay["id"])
    storm.vp.set_cloud_mode("observe")
    for host in HOSTS:
        cloud.wait_for(
            lambda host=host: order(host, "release") is True,
            f"the agent of {host} to give everything back",
            deadline_s=120,
            interval_s=1.0,
        )


def tend(storm: Storm) -> None:
    """What an operator does for servers that nobody else brings back."""
    compute = storm.admin.compute
    stuck: set[str] = set()
    for one in compute.servers(all_projects=True):
        # Of a server that no host has, Nova says that it was changed just now.
        changed_at = one.updated_at if one.compute_host else one.created_at
        changed_s = (datetime.now(UTC) - datetime.fromisoformat(changed_at)).total_seconds()
        if one.task_state is None and one.status == "ERROR":
            storm.failed[one.id] = (one.fault or {}).get("message", "no reason")
            say(f"{one.id}: Nova failed it: {storm.failed[one.id]}")
            storm.delete(one)
        elif one.task_state is None and one.id in storm.to_reboot:
            if one.status in REBOOTABLE:
                compute.reboot_server(one, "HARD")
                storm.to_reboot.remove(one.id)
        elif (one.task_state or one.status == "BUILD") and changed_s > PATIENCE_S:
            # Nova forgets what it was doing if its message is lost.
            doing = one.task_state or one.status
            say(f"{one.id}: {doing} for {changed_s:.0f} s, until an operator steps in")
            if one.compute_host is None:
                storm.delete(one)
            else:  # Nova ignores another request to delete; the next look deletes what failed.
                stuck.add(one.compute_host)
                if one.task_state == "deleting":
                    compute.reset_server_state(one, "error")
                else:
                    bring_back(storm, one)
    restart_nova_compute(*stuck)


def restart_nova_compute(*hosts: str) -> None:
    """Killed, libvirtd can leave it waiting for a lock that it holds itself."""
    for host in hosts:
        cloud.kill(f"nova-compute@{host}")


def bring_back(storm: Storm, server: Any) -> None:
    """It is rebooted as soon as Nova lets it be: its domain may not be there."""
    if server.status in ("RESIZE", "VERIFY_RESIZE"):
        forget_elsewhere(server)
    storm.admin.compute.reset_server_state(server, "active")
    if server.id not in storm.to_reboot:
        storm.to_reboot.append(server.id)


def forget_elsewhere(server: Any) -> None:
    """Where a resize came from Nova leaves the domain until the resize is confirmed."""
    for host in HOSTS:
        if host != server.compute_host and not is_running(host, server.instance_name):
            # Most of the time it is not there.
            cloud.shell(host, "virsh", "undefine", server.instance_name, check=False)


def is_running(host: str, domain: str) -> bool:
    return domain in cloud.shell(host, "virsh", "list", "--name").stdout.split()


def is_quiet(storm: Storm) -> bool:
    """What waits for somebody's word gets it."""
    with suppress(*FAULTS):
        tend(storm)
    compute = storm.admin.compute
    words = {
        "VERIFY_RESIZE": compute.confirm_server_resize,
        "PAUSED": compute.unpause_server,
        "SUSPENDED": compute.resume_server,
    }
    servers = list(compute.servers(all_projects=True))
    for one in servers:
        is_gone = one.id in storm.to_reboot and one.status in REBOOTABLE  # See `tend`.
        if one.task_state is None and one.status in words and not is_gone:
            try:
                words[one.status](one)
            except BadRequestException:  # A resize whose record was lost can't be confirmed.
                bring_back(storm, one)
            except FAULTS as exc:
                say(f"{one.id}, {one.status}: {first_line(exc)}")
    moving = (*words, "MIGRATING", "BUILD", "ERROR")
    return all(
        one.task_state is None and one.status not in moving and one.id not in storm.to_reboot
        for one in servers
    )


def plant(fault: str, storm: Storm) -> None:
    """On the first server that runs."""
    host, uuid, name = next(
        (host, uuid, name)
        for host in HOSTS
        for uuid, name in domains_of(host).items()
        if storm.admin.compute.get_server(uuid).status == "ACTIVE"
    )
    other = next(one for one in HOSTS if one != host)
    if fault == "pin":
        cloud.shell(host, "virsh", "vcpupin", name, "0", "0", "--live")
    elif fault == "lost":
        cloud.stop(f"nova-compute@{host}")
        cloud.shell(host, "virsh", "destroy", name)
        cloud.shell(host, "virsh", "undefine", name)
    else:
        xml = domain_xml(host, name, "--inactive")
        program = "cat >/tmp/double.xml && virsh define /tmp/double.xml && rm /tmp/double.xml"
        subprocess.run(
            cloud.shell_argv(other, "sh", "-c", program), input=xml, text=True, check=True
        )
    say(f"planted: {fault} on {uuid}")


def conclude(progress: Progress, verdict: Verdict, *, is_whole: bool) -> int:
    for kind, found in verdict._asdict().items():
        for line in found:
            say(f"{kind}: {line}")
    say(f"slowest answers: {progress.worst_answer_s}")
    worst_answer_s = max(progress.worst_answer_s.values(), default=0.0)
    told: dict[str, Any] = {
        "seed": progress.seed,
        "operations": sum(progress.done.values()),
        "refused": sum(progress.refused.values()),
        "rarest": min(progress.done.get(name, 0) for name in OPERATIONS),
        **{kind: len(found) for kind, found in verdict._asdict().items()},
        "failed": len(progress.failed),
        "worst_answer_s": worst_answer_s,
    }
    print(json.dumps(told), flush=True)
    if is_whole:
        progress.file.unlink(missing_ok=True)
    if unasked := ASKED.keys() - progress.worst_answer_s.keys():
        say(f"never asked, let it run longer: {', '.join(sorted(unasked))}")
    is_in_time = worst_answer_s <= ANSWERS_WITHIN_S and not unasked
    return 0 if verdict.is_well and is_in_time else 1


def first_line(exc: BaseException) -> str:
    return f"{type(exc).__name__}: {exc}".partition("\n")[0][:160]


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
