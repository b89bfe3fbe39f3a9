# SPDX-License-Identifier: Apache-2.0
"""Made-up requests against the served OpenAPI document, for a given time, as every persona.

`python -m tests.api_fuzz --seconds 600 --json`. The database is populated, and what a tenant must
never be told stands in it as canaries. Fails with the smallest request that was answered wrong, and
if somebody did not get to ask something.
"""

import argparse
import itertools
import json
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import vp_api  # noqa: F401  (first: it chooses threads before oslo.messaging is imported)
from tests.unit.api.fuzz import PERSONAS, Population, Run
from vp_api.routes import ROUTES

EXAMPLES = 6


def fuzz(seconds: float) -> dict[str, Any]:
    seed = int(time.time())
    population = Population(seed)
    runs = {
        label: Run(population.api, persona, population.names, population.words_hidden_from(persona))
        for label, persona in PERSONAS.items()
    }
    begun, failures = time.monotonic(), []
    for label, operation, number in _turns(runs):
        if time.monotonic() - begun > seconds:
            break
        population.answer_as(runs[label].persona, number)
        try:
            runs[label].ask(operation, EXAMPLES, seed + number)
        except BaseExceptionGroup as group:
            failures += [f"{label}: {one}" for one in group.exceptions]
        except Exception as exc:
            failures.append(f"{label}: {exc}")
        if failures:
            break
    return {
        "seconds": round(time.monotonic() - begun),
        "seed": seed,
        **_counted(runs),
        "not_asked": not_asked(runs),
        "failures": failures,
    }


def _turns(runs: Mapping[str, Run]) -> Iterator[tuple[str, Any, int]]:
    """Who asks what, and in which round: each round all ask all."""
    operations = {label: list(run.operations()) for label, run in runs.items()}
    for number in itertools.count():
        for label, described in operations.items():
            for operation in described:
                yield label, operation, number


def _counted(runs: Mapping[str, Run]) -> dict[str, Any]:
    told = {label: Counter[int]() for label in runs}
    for label, run in runs.items():
        for (_, status), count in run.statuses.items():
            told[label][status] += count
    total = sum(told.values(), Counter[int]())
    return {
        "requests": total.total(),
        "server_errors": sum(count for status, count in total.items() if status >= 500),
        "statuses": {label: dict(sorted(counts.items())) for label, counts in told.items()},
    }


def not_asked(runs: Mapping[str, Run]) -> dict[str, list[str]]:
    """By persona, the operations of the routes table that it did not ask once."""
    every = {(method, path) for path, methods in ROUTES.items() for method in methods}
    return {
        label: sorted(f"{method} {path}" for method, path in every - run.asked)
        for label, run in runs.items()
        if every - run.asked
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--json", action="store_true", help="one line for programs")
    given = parser.parse_args()
    found = fuzz(given.seconds)
    print(json.dumps(found) if given.json else json.dumps(found, indent=2))
    if found["not_asked"]:
        print("Give it more --seconds: not everybody got to ask everything.", file=sys.stderr)
    return 1 if found["failures"] or found["not_asked"] else 0


if __name__ == "__main__":
    sys.exit(main())
