# SPDX-License-Identifier: Apache-2.0
"""Made-up requests against the served OpenAPI document, for a given time, as every persona.

`python -m tests.api_fuzz --seconds 600 --json`. The database is populated, and what a tenant must
never be told stands in it as canaries. Fails with the smallest request that was answered wrong.
"""

import argparse
import itertools
import json
import sys
import time
from collections import Counter
from typing import Any

import vp_api  # noqa: F401  (first: it chooses threads before oslo.messaging is imported)
from tests.unit.api import cloud, stored
from tests.unit.api.client import Api, Persona
from tests.unit.api.fuzz import OPERATORS, Run, names_of
from tests.unit.api.test_isolation import Canaries, a_record_of_canaries

PERSONAS = (
    *(Persona(role) for role in ("admin", "service", "manager", "member", "reader")),
    *(Persona("member", project_id) for project_id in (cloud.BETA, cloud.GAMMA)),
)
EXAMPLES = 25


def populated() -> tuple[Api, list[str]]:
    """With the canaries that the tenant of `cloud.VICTIM` must not be told."""
    canaries = Canaries(int(time.time()))
    record = a_record_of_canaries(canaries, age_s=3)
    filled = stored.filled_like_the_cloud([record])
    return Api(stored=filled), canaries.planted


def fuzz(seconds: float) -> dict[str, Any]:
    api, secrets = populated()
    names = names_of(api)
    begun, asked, failures = time.monotonic(), 0, []
    statuses: dict[str, Counter[int]] = {}
    for number in itertools.count():
        for persona in PERSONAS:
            label = persona.role if persona.project_id == cloud.ALPHA else f"foreign {persona.role}"
            run = Run(api, persona, names, secrets if persona.role not in OPERATORS else [])
            for operation in run.operations():
                if time.monotonic() - begun > seconds:
                    break
                try:
                    run.ask(operation, EXAMPLES, number)
                except BaseExceptionGroup as group:
                    failures += [f"{label}: {one}" for one in group.exceptions]
                except Exception as exc:
                    failures.append(f"{label}: {exc}")
            statuses.setdefault(label, Counter()).update(run.statuses)
        asked = sum(counter.total() for counter in statuses.values())
        if failures or time.monotonic() - begun > seconds:
            break
    return {
        "seconds": round(time.monotonic() - begun),
        "requests": asked,
        "statuses": {label: dict(sorted(told.items())) for label, told in statuses.items()},
        "server_errors": sum(
            count for told in statuses.values() for status, count in told.items() if status >= 500
        ),
        "failures": failures,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--json", action="store_true", help="one line for programs")
    given = parser.parse_args()
    found = fuzz(given.seconds)
    print(json.dumps(found) if given.json else json.dumps(found, indent=2))
    return 1 if found["failures"] else 0


if __name__ == "__main__":
    sys.exit(main())
