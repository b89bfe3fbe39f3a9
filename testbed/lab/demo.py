# SPDX-License-Identifier: Apache-2.0
"""`make demo`: interference, mitigation and placement on a real cloud, with measurements.

The time at which the neighbour starts to stream is fixed when it boots. The agent gets the mode
from the operator and nothing else: it detects by itself which server degrades which.
"""

import argparse
import json
import math
import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from rich.console import Console as Screen
from rich.table import Table

from testbed.lab import cloud, settings, timeline
from testbed.lab.lag_meter import MAX_RATIO, LagMeter
from testbed.lab.monitor import LabMonitor, Watched, agent_status, vp_of

HOST, OTHER = "vp1", "vp2"
PREFIX = "demo-"
SWITCH_AT_UPTIME_S = 32
PHASE_S = 8.0
TRIES = 3
SETTLE_S = 3.0
HARM_RATIO = 0.5
REPORT = settings.ROOT / "demo-report.json"
PICTURE = settings.ROOT / "demo-timeline.png"

FILLER = ("filler", "vp.small", "work=compute")
VICTIM = ("victim", "vp.tiny", "work=chase:384")
NEIGHBOUR = ("neighbour", "vp.tiny", f"work=compute@until={SWITCH_AT_UPTIME_S},stream:8192")
TWIN = ("twin", "vp.tiny", "work=stream:8192")

WIDTH = 100
screen = Screen(highlight=False, soft_wrap=True)


class DemoFailed(Exception):
    """The story did not end as it should. The message says where to look."""


@dataclass(frozen=True, slots=True)
class Phase:
    begin: float
    end: float
    victim_ops: float
    victim_factor: float
    neighbour_ops: float
    neighbour_remote_ratio: float
    """Of its misses, those that another node's memory serves."""


@dataclass
class Story:
    mode: str
    began_at: float = field(default_factory=time.time)
    phases: dict[str, Phase] = field(default_factory=dict)
    events: list[tuple[float, str]] = field(default_factory=list)
    solo_stream_ops: float = 0.0
    seconds_to_action: float | None = None
    placed: list[dict[str, str]] = field(default_factory=list)
    debt_ratio: float = 0.0

    def say(self, text: str, *, mark: str = "") -> None:
        stamp = f"{time.time() - self.began_at:6.1f} s"
        told = wrapped(text, indent=len(stamp) + 2).lstrip()
        screen.print(f"[dim]{stamp}[/]  {told}")
        if mark:
            self.events.append((time.time(), mark))


def wrapped(text: str, indent: int = 0) -> str:
    """Within WIDTH columns, but for words that are longer; commands are to be copied whole."""
    blank = " " * indent
    lines = [
        textwrap.fill(
            line,
            WIDTH,
            initial_indent=blank,
            subsequent_indent=blank,
            break_long_words=False,
            break_on_hyphens=False,
        )
        for line in text.splitlines()
    ]
    return "\n".join(lines)


def show_nothing(moment: str, victim_id: str) -> None:
    """To have the story alone."""


def run(
    mode: str,
    up: tuple[str, ...] = ("up",),
    show_more: Callable[[str, str], None] = show_nothing,
) -> int:
    """`show_more` is told of the victim when it is degraded, and at the end."""
    story = Story(mode)
    subprocess.run([str(settings.LAB / "lab"), *up], check=True)
    admin = cloud.connect()
    clear(admin)
    for host in (HOST, OTHER):
        wait_until_known(host)
        openstack("vp", "mode", "set", "advise", "--host", host)  # Newcomers get their places.
    eyes = DemoView()
    try:
        twin = start_twin(story, admin, eyes)
        victim, _ = [boot(story, admin, eyes, *what) for what in (FILLER, VICTIM, NEIGHBOUR)][1:]
        measure_twin(story, admin, eyes, twin)
        harm(story, eyes)
        show_more("degraded", victim.server_id)
        mend(story, eyes)
        told = explain(victim)
        show_more("end", victim.server_id)
        if mode == "enforce":
            place(story, admin)
    finally:
        eyes.close()
    return close(story, eyes.host, told)


class DemoView:
    """Everything that watches: both hosts' servers, and the debt of both modelled clocks."""

    def __init__(self) -> None:
        self.host, self.other = LabMonitor(HOST), LabMonitor(OTHER)
        self.debts = [LagMeter(HOST), LagMeter(OTHER)]

    def debt_ratio(self, begin: float, end: float) -> float:
        to_monotonic = time.monotonic() - time.time()
        window = (begin + to_monotonic, end + to_monotonic)
        return max(meter.worst_ratio(*window) for meter in self.debts)

    def close(self) -> None:
        for part in (self.host, self.other, *self.debts):
            part.close()


def wait_until_known(host: str) -> None:
    """On a lab that has just come up, the first reports are still on their way."""

    def is_listed() -> bool:
        return host in [one["Host"] for one in json.loads(openstack(*listing))]

    listing = ("vp", "host", "list", "-f", "json")
    cloud.wait_for(is_listed, f"the API to know {host}", deadline_s=120, interval_s=0.5)


def clear(admin: Any) -> None:
    """Servers that an earlier demo left."""
    cloud.delete(admin, *(s for s in admin.compute.servers() if s.name.startswith(PREFIX)))


def openstack(*argv: str) -> str:
    """The real command line client, as the lab's admin."""
    environment = {**os.environ, **settings.admin_environment()}
    client = settings.VENV / "bin" / "openstack"
    done = subprocess.run(
        [str(client), *argv], capture_output=True, text=True, env=environment, check=False
    )
    if done.returncode:
        raise DemoFailed(f"`openstack {' '.join(argv)}` failed: {done.stderr.strip()}")
    return done.stdout


def start_twin(story: Story, admin: Any, eyes: DemoView) -> Watched:
    """The neighbour's own pace: its twin streams alone on the other host, and leaves again."""
    name, flavor, work = TWIN
    story.say(f"a copy of the neighbour runs alone on {OTHER}, to measure its solo rate: `{work}`")
    server = cloud.boot(admin, PREFIX + name, flavor, work, host=OTHER)
    return eyes.other.add(name, server.id)


def measure_twin(story: Story, admin: Any, eyes: DemoView, twin: Watched) -> None:
    def settled() -> bool:
        vp = vp_of(agent_status(OTHER), twin.server_id)
        return vp is not None and vp["state"] is not None

    cloud.wait_for(settled, "the agent to classify the twin", deadline_s=120)
    begin, end = valid_window(eyes, time.time() + 1)
    story.solo_stream_ops = twin.console.median_ops(begin, end)
    cloud.delete(admin, admin.compute.get_server(twin.server_id))


def valid_window(eyes: DemoView, begin: float) -> tuple[float, float]:
    """The next stretch in which the machine kept the modelled pace; at most three are tried."""
    for _ in range(TRIES):
        end = begin + PHASE_S
        wait_until(end)
        if eyes.debt_ratio(begin, end) <= MAX_RATIO:
            break
        begin = end
    return end - PHASE_S, end


def boot(story: Story, admin: Any, eyes: DemoView, name: str, flavor: str, work: str) -> Watched:
    server = cloud.boot(admin, PREFIX + name, flavor, work, host=HOST)
    watched = eyes.host.add(name, server.id)
    domain = home_of(HOST, name, server.id)
    story.say(f"{name} on {HOST}, placed on LLC domain {domain} by the agent: `{work}`")
    return watched


def home_of(host: str, name: str, server_id: str) -> int:
    """The LLC domain that the agent of its host gives it."""

    def home() -> list[int] | None:
        vp = vp_of(agent_status(host), server_id)
        return vp["domains"] if vp and len(vp["domains"]) == 1 else None

    [domain] = cloud.wait_for(home, f"{name} to be homed on one LLC domain", deadline_s=60)
    return int(domain)


def wait_until(moment: float) -> None:
    cloud.wait_for(lambda: time.time() >= moment, "the phase to end", deadline_s=120)


def harm(story: Story, eyes: DemoView) -> None:
    victim, neighbour = eyes.host.servers["victim"], eyes.host.servers["neighbour"]
    story.say(
        f"no interference yet; the neighbour starts to stream {SWITCH_AT_UPTIME_S} s after its boot"
    )
    openstack("vp", "mode", "set", "observe", "--host", HOST)
    cloud.wait_for(lambda: neighbour.console.switches, "the neighbour's switch", deadline_s=120)
    switch_at = neighbour.console.switches[-1].at
    measure(story, eyes, "alone", switch_at - PHASE_S, switch_at)
    story.say("the neighbour streams now; in mode observe the agent only measures", mark="stream")
    cloud.wait_for(
        lambda: victim.sightings and victim.sightings[-1].is_hurt,
        "the agent to detect the degradation of the victim",
        deadline_s=60,
    )
    story.say("the agent detects that a neighbour degrades the victim", mark="detected")
    measure(story, eyes, "interfered", *valid_window(eyes, time.time() + 1))


def mend(story: Story, eyes: DemoView) -> None:
    """The agent decides which of the two it moves: on a busy host the victim swaps places."""
    victim, neighbour = eyes.host.servers["victim"], eyes.host.servers["neighbour"]
    if story.mode == "enforce":
        ordered_at = time.time()
        openstack("vp", "host", "set", HOST, "--mode", "enforce")
        story.say(f"`openstack vp host set {HOST} --mode enforce`")
        cloud.wait_for(
            lambda: not victim.moves[-1][1] & neighbour.moves[-1][1],
            "the agent to separate victim and neighbour",
            deadline_s=60,
        )
        moved = max(victim, neighbour, key=lambda one: one.moves[-1][0])
        moved_at, cpus = moved.moves[-1]
        story.events.append((moved_at, "moved"))
        story.seconds_to_action = round(moved_at - ordered_at, 2)
        story.say(f"the agent moved the {moved.name}'s vCPU to CPUs {sorted(cpus)}")
    measure(story, eyes, "mended", *valid_window(eyes, time.time() + SETTLE_S))


def measure(story: Story, eyes: DemoView, name: str, begin: float, end: float) -> None:
    victim, neighbour = eyes.host.servers["victim"], eyes.host.servers["neighbour"]
    factors = (s.memory_factor for s in victim.sightings if begin + 1 <= s.at <= end)
    remote = (s.remote_ratio for s in neighbour.sightings if begin + 1 <= s.at <= end)
    story.debt_ratio = max(story.debt_ratio, eyes.debt_ratio(begin, end))
    story.phases[name] = Phase(
        begin,
        end,
        victim.console.median_ops(begin, end),
        mean_of(factors),
        neighbour.console.median_ops(begin, end),
        mean_of(remote),
    )


def mean_of(seen: Iterable[float | None]) -> float:
    """NaN where nothing was seen."""
    known = [value for value in seen if value is not None]
    return fmean(known) if known else math.nan


def explain(victim: Watched) -> str:
    """What the API says of the victim: the detection, the action and its reason."""
    told = ("vp", "show", victim.server_id)

    def is_told() -> bool:
        vp = json.loads(openstack(*told, "-f", "json"))
        return bool(vp["interference"]) or any(a["result"] == "mended" for a in vp["actions"])

    cloud.wait_for(is_told, "the API to show it", deadline_s=60, interval_s=1)
    return openstack(*told)


def place(story: Story, admin: Any) -> None:
    """Two servers that insist on isolation: where the scheduler puts them, and in its own words.
    While one of them has no home yet it is thought to be everywhere on its host."""
    cloud.put_flavor(admin, "vp.strict", specs={"vp:isolation": "strict"})
    for name in ("strict-1", "strict-2"):
        server = cloud.boot(admin, PREFIX + name, "vp.strict", "work=compute")
        host = cloud.server_host(admin, server)
        reason = cloud.placement_reason(server.id)
        story.placed.append({"host": host, "reason": reason})
        story.say(f"{name} (vp:isolation=strict) was placed on {host}: {reason}")
        home_of(host, name, server.id)


def close(story: Story, watch: LabMonitor, told: str) -> int:
    show(story, told)
    alone, mended = story.phases["alone"], story.phases["mended"]
    interfered = story.phases["interfered"]
    report = {
        "victim": {
            "solo": alone.victim_ops,
            "interfered": interfered.victim_ops,
            "mended": mended.victim_ops,
        },
        "neighbour": {"solo": story.solo_stream_ops, "mended": mended.neighbour_ops},
        "seconds_to_action": story.seconds_to_action,
        "placed": story.placed[0] if story.placed else None,
        "wall_s": round(time.time() - story.began_at, 1),
        "mode": story.mode,
        "debt_ratio": round(story.debt_ratio, 4),
    }
    REPORT.write_text(json.dumps(report, indent=2) + "\n")
    timeline.draw(PICTURE, watch, story.events, story.began_at)
    screen.print(f"report {REPORT.name}, picture {PICTURE.name}; `make demo-down` cleans up")
    return judge(story)


def show(story: Story, told: str) -> None:
    solo = story.phases["alone"].victim_ops
    table = Table(title="What happened", title_justify="left")
    for heading in ("phase", "victim ops/s", "of solo", "victim MF", "neighbour ops/s", "of solo"):
        table.add_column(heading, justify="left" if heading == "phase" else "right")
    for name, phase in story.phases.items():
        streams = name != "alone"
        left = name == "mended" and story.mode == "observe"
        table.add_row(
            "unmitigated" if left else name,
            f"{phase.victim_ops:,.0f}",
            f"{phase.victim_ops / solo:.0%}",
            f"{phase.victim_factor:.2f}",
            f"{phase.neighbour_ops:,.0f}" if streams else "(compute)",
            f"{phase.neighbour_ops / story.solo_stream_ops:.0%}" if streams else "",
        )
    screen.print(table)
    mended = story.phases["mended"]
    if story.mode == "enforce" and mended.neighbour_remote_ratio > 0:
        screen.print(wrapped(cost_told(mended, story.solo_stream_ops)), markup=False)
    screen.print("What an operator sees of the victim (`openstack vp show`):")
    print(told)


def cost_told(mended: Phase, solo_ops: float) -> str:
    """What the move cost the neighbour, which `predicted degradation` does not include."""
    return (
        f"The neighbour was moved and runs at {mended.neighbour_ops / solo_ops:.0%} of its solo "
        "rate. Its memory stayed on its old node, because this lab moves no memory ([agent] memory "
        f"= none), so {mended.neighbour_remote_ratio:.0%} of its misses go to another node. "
        "`predicted degradation` below is about caches only. The agent predicted the cost of the "
        "remote memory separately, and accepts at most half of the loss of the victim for it."
    )


def judge(story: Story) -> int:
    alone, mended = story.phases["alone"], story.phases["mended"]
    ratio = mended.victim_ops / alone.victim_ops
    if story.debt_ratio > MAX_RATIO:
        fail(
            "invalid: the machine was too busy to keep the modelled speed "
            f"({story.debt_ratio:.1%} behind, at most {MAX_RATIO:.0%}); stop other work and repeat"
        )
        return 2
    if ratio <= HARM_RATIO:
        fail(f"the victim still runs at {ratio:.0%} of its solo rate")
        return 1
    screen.print(f"[green]the victim is back at {ratio:.1%} of its solo rate[/]")
    return 0


def fail(text: str) -> None:
    screen.print(wrapped(text), style="red", markup=False)


def main(tell: Callable[[str], int] = run) -> int:
    parser = argparse.ArgumentParser(prog="make demo", description=__doc__)
    parser.add_argument(
        "--mode",
        choices=("enforce", "observe"),
        default="enforce",
        help="observe does not mitigate, and ends with exit status 1",
    )
    try:
        return tell(parser.parse_args().mode)
    except (cloud.LabError, DemoFailed) as error:
        fail(f"demo: {error}; `testbed/lab/lab status` shows what runs")
    except subprocess.CalledProcessError as error:
        fail(f"demo: {error}")
    return 2


if __name__ == "__main__":
    sys.exit(main())
