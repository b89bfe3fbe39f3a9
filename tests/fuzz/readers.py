# SPDX-License-Identifier: Apache-2.0
"""Whoever shows what is stored: the real vp-api, as an operator and as a tenant.

Every answer is held against the routes table, as in all tests of it.
"""

import itertools
import logging
from collections.abc import Iterator, Mapping
from urllib.parse import quote

from tests.fuzz.database import Database, Rows
from tests.fuzz.oracle import expect
from tests.unit.api.client import Api, Persona
from vp_api.services import Stored

MOST = 4
"""Hosts, and of each so many of each kind, that are looked at singly."""


class Readers:
    def __init__(self, database: Database) -> None:
        self._api = Api(stored=Stored.open(database.conf))

    def read(self, rows: Rows) -> None:
        projects = {row[2] for of_host in rows["vps"].values() for row in of_host}
        personas = [Persona("admin"), *(Persona("reader", one) for one in _some(projects))]
        for persona in personas:
            for path in _paths(rows):
                try:
                    path.encode("ascii")
                    answer = self._api.latest(persona, path)
                except Exception as exc:
                    exc.add_note(f"GET {path} as {persona.role}")
                    raise
                expect(answer.status < 500, f"GET {path}: {answer.status} {answer.text[:200]}")


def _some(values: set[object]) -> Iterator[str]:
    plain = sorted(v for v in values if isinstance(v, str) and v.isascii() and v.isprintable())
    return itertools.islice((one for one in plain if one), 1)


def _paths(rows: Rows) -> Iterator[str]:
    for kind in ("hosts", "vps", "actions", "escalations", "profiles"):
        yield f"/v1/{kind}?limit=1000"
    for host in itertools.islice(rows["hosts"], MOST):
        yield f"/v1/hosts/{quote(host)}"
        yield f"/v1/hosts/{quote(host)}/history"
    for id in _ids(rows["vps"]):
        yield f"/v1/vps/{id}"
        yield f"/v1/vps/{id}/history"
        yield f"/v1/vps/{id}/actions"
    for id in _ids(rows["escalations"]):
        yield f"/v1/escalations/{id}"


def _ids(rows: Mapping[str, frozenset[tuple[object, ...]]]) -> Iterator[str]:
    """The same of the same rows, so that a finding can be had again."""
    for of_host in itertools.islice(rows.values(), MOST):
        ids = sorted(str(row[0]) for row in of_host)
        yield from map(quote, ids[:: len(ids) // MOST + 1])


logging.getLogger("webob").setLevel(logging.WARNING)
