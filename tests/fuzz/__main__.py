# SPDX-License-Identifier: Apache-2.0
"""`python -m tests.fuzz --payloads 1000000`: see `run`. Each finding is printed with the smallest
payload that shows it, and with what has it shown again: `python -m tests.fuzz --only SEED:NUMBER`.
"""

import argparse
import json
import sys
import time
from typing import Any

from tests.fuzz.escalations import Escalations
from tests.fuzz.run import Finding, Run, a_run, fuzz

MOST_SHOWN = 4000
ENOUGH = 50_000
"""Escalations that get to all states: a run of so many that does not has failed."""


def told(run: Run, seconds: float) -> dict[str, Any]:
    subjects: dict[str, dict[str, int]] = {}
    for (subject, outcome), count in sorted(run.outcomes.items()):
        subjects.setdefault(subject, {})[outcome] = count
    return {
        "seed": run.seed,
        "payloads": run.payloads(),
        "seconds": round(seconds, 1),
        "payloads_per_s": round(run.payloads() / seconds),
        "subjects": subjects,
        "escalation_transitions": {
            f"{before.value} -> {after.value}": count
            for (before, after), count in sorted(run.reached.items(), key=str)
            if before is not after
        },
        "escalation_transitions_not_reached": run.not_reached(),
        "findings": [_finding(run.seed, one) for one in run.findings.values()],
    }


def _finding(seed: str, one: Finding) -> dict[str, Any]:
    numbers = f"{one.numbers[0]}-{one.numbers[-1]}" if len(one.numbers) > 1 else one.numbers[0]
    return {
        "subject": one.fault.subject,
        "fault": one.fault.what,
        "where": one.fault.where,
        "times": one.times,
        "again": f"python -m tests.fuzz --only {seed}:{numbers}",
        "payload": repr(one.payload)[:MOST_SHOWN],
    }


def again(which: str) -> int:
    """Of one number, or of all from one to another in one world."""
    seed, _, numbers = which.rpartition(":")
    first, _, last = numbers.partition("-")
    with a_run(seed) as run:
        with run.world() as world:
            span = range(int(first), int(last or first) + 1)
            payloads = [one for number in span if (one := world.make(seed, number))]
        print(payloads[-1].kind.name, repr(payloads[-1].content)[:MOST_SHOWN])
        fault = run.fault(payloads)
    print(fault.traceback if fault else "nothing is wrong")
    return 1 if fault else 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--payloads", type=int, default=100_000)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="at most")
    parser.add_argument("--seed", default="1")
    parser.add_argument("--first", type=int, default=0, help="number of the first payload")
    parser.add_argument("--subject", help="this one alone")
    parser.add_argument("--only", metavar="SEED:NUMBER", help="again, alone, and why")
    parser.add_argument("--json", action="store_true", help="one line for programs")
    given = parser.parse_args()
    if given.only:
        return again(given.only)
    begun_s = time.monotonic()
    with a_run(given.seed, given.subject) as run:
        fuzz(run, given.payloads, given.seconds, given.first)
        found = told(run, time.monotonic() - begun_s)
        print(json.dumps(found) if given.json else json.dumps(found, indent=2))
    is_long = sum(found["subjects"].get(Escalations.name, {}).values()) >= ENOUGH
    is_short_of = is_long and found["escalation_transitions_not_reached"]
    return 1 if found["findings"] or is_short_of else 0


if __name__ == "__main__":
    sys.exit(main())
