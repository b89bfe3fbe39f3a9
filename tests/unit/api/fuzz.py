# SPDX-License-Identifier: Apache-2.0
"""Requests made up from the served OpenAPI document, valid ones and others, as one persona.

Whatever comes back must be what the document says of it, and never a 5xx. Half of the requests
name what there is: made-up names alone would never get past 404. Tenants are never told a word of
their neighbours, of the hosts or of the operators.
"""

import itertools
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

import oslo_messaging
from hypothesis import HealthCheck, Phase, Verbosity, given, seed, settings
from hypothesis import strategies as st

from tests.unit.api import cloud, stored
from tests.unit.api.canaries import OWN_NAME, Canaries, a_record_of_canaries
from tests.unit.api.client import Api, Persona
from tests.unit.api.oracle import find_leaks

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # what it imports warns of what that imports
    import schemathesis
    from schemathesis.checks import not_a_server_error
    from schemathesis.specs.openapi.checks import (
        content_type_conformance,
        response_schema_conformance,
        status_code_conformance,
    )

CHECKS = (
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
)
DOCUMENT = "/v1/openapi.json"
OPERATORS = ("admin", "service")
TENANTS = ("manager", "member", "reader", "nobody")
PROJECTS = {"own": cloud.ALPHA, "foreign": cloud.BETA, "empty": cloud.GAMMA}
PERSONAS: dict[str, Persona | None] = {
    "no token": None,
    **{
        f"{role} of the {name} project": Persona(role, project_id)
        for role, (name, project_id) in itertools.product((*OPERATORS, *TENANTS), PROJECTS.items())
    },
    "admin without a project": Persona("admin", None),
    "admin of the system": Persona("admin", None, system=True),
}
"""Everybody there is, by what findings call them."""
OF_OPERATORS = (
    *("lab-1", "lab-2", "orphan", "not started by Nova", "6f1c2d3e-", "user-admin", "user-service"),
    *(cloud.ORPHAN, cloud.ESCALATION, cloud.OLD_ESCALATION),
)
OF_PROJECTS = {
    cloud.ALPHA: (cloud.ALPHA, cloud.VICTIM, cloud.SLEEPER, OWN_NAME, "sleeper"),
    cloud.BETA: (cloud.BETA, cloud.NOISY, "noisy"),
}
"""`victim` is none of them: the API's own document says it."""
Operation = tuple[str, str]
"""Method and path, as the routes table spells them."""


class Population:
    """The stored cloud, with a fresh host more whose report is full of canaries."""

    def __init__(self, number: int) -> None:
        canaries = Canaries(number)
        record = a_record_of_canaries(canaries, age_s=1)
        self._canaries = canaries.planted
        self._host = record.host
        self._neighbour = record.report["vps"][1]["name"]
        self.api = Api(stored=stored.filled_like_the_cloud([record]))
        self.names = names_of(self.api)

    def words_hidden_from(self, persona: Persona | None) -> list[str]:
        if is_operator(persona):
            return []
        own = None if persona is None else persona.project_id
        others = [words for project_id, words in OF_PROJECTS.items() if project_id != own]
        return [*self._canaries, *OF_OPERATORS, *itertools.chain(*others)]

    def answer_as(self, persona: Persona | None, number: int) -> None:
        """Each other round the agent of the host of canaries fails, and its error says what tenants
        must not read. Not for operators: they are told that it failed, which is a 5xx."""
        words = f"{self._host} cannot: {self._neighbour} is there"
        failure = oslo_messaging.MessagingTimeout(words)
        is_failing = number % 2 == 1 and not is_operator(persona)
        self.api.agents.failing = {self._host: failure} if is_failing else {}


def is_operator(persona: Persona | None) -> bool:
    return persona is not None and persona.project_id is not None and persona.role in OPERATORS


@dataclass
class Run:
    """What one persona asks of one stored cloud."""

    api: Api
    persona: Persona | None
    names: dict[str, list[str]]
    """What there is, by name of the argument in path or query."""
    secrets: list[str] = field(default_factory=list)
    """What this persona must never be told."""
    statuses: Counter[tuple[Operation, int]] = field(default_factory=Counter)
    """How often each operation was answered with which status."""

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Any:
        environ["test.persona"] = self.persona
        return self.api.application(environ, start_response)

    def operations(self) -> Iterator[Any]:
        # Not loaded from its address: schemathesis would leave out the operation that serves it.
        schema = schemathesis.openapi.from_dict(self.api.ask(self.persona, DOCUMENT).json)
        schema.app = self
        for found in schema.get_all_operations():
            yield found.ok()

    @property
    def asked(self) -> set[Operation]:
        return {operation for operation, _ in self.statuses}

    def ask(self, operation: Any, examples: int, number: int) -> None:
        """Raises AssertionError, or schemathesis' failures, with the smallest request found."""

        @seed(number)
        @settings(
            max_examples=examples,
            database=None,
            deadline=None,
            phases=[Phase.generate, Phase.shrink],
            suppress_health_check=list(HealthCheck),
            verbosity=Verbosity.quiet,
        )
        @given(
            case=_requests(operation),
            is_known=st.booleans(),
            pick=st.integers(0, 1000),
        )
        def one(case: Any, is_known: bool, pick: int) -> None:
            self._one(case, pick if is_known else None)

        one()

    def _one(self, case: Any, pick: int | None) -> None:
        if pick is not None:
            for given_names in (case.path_parameters, case.query):
                self._name_what_there_is(given_names, pick)
            # With any other order beside it a tenant would never get past 403.
            if isinstance(case.body, dict) and "opt_out" in case.body:
                case.body = {"opt_out": case.body["opt_out"]}
        response = case.call()
        self.statuses[operation_of(case.operation), response.status_code] += 1
        case.validate_response(response, checks=list(CHECKS))
        self._look_for_secrets(case, response)

    def _name_what_there_is(self, given_names: dict[str, Any], pick: int) -> None:
        for name in given_names.keys() & self.names.keys():
            there = self.names[name]
            given_names[name] = there[pick % len(there)]

    def _look_for_secrets(self, case: Any, response: Any) -> None:
        asked = f"{case.formatted_path} {case.query} {case.headers} {case.body}"
        headers = [(name, value) for name, values in response.headers.items() for value in values]
        found = find_leaks(response.content.decode(), headers, self.secrets, asked)
        assert not found, f"{case.method} {asked} tells {found}"


def operation_of(described: Any) -> Operation:
    return described.method.upper(), described.path


def _requests(operation: Any) -> Any:
    """Three of four are as the document says, in every part."""
    valid = operation.as_strategy(generation_mode=schemathesis.GenerationMode.POSITIVE)
    others = operation.as_strategy(generation_mode=schemathesis.GenerationMode.NEGATIVE)
    return st.one_of(valid, valid, valid, others)


def names_of(api: Api) -> dict[str, list[str]]:
    """As an admin finds them."""
    admin = Persona("admin")

    def listed(path: str, resource: str, key: str) -> list[str]:
        return [one[key] for one in api.latest(admin, path).json[resource]]

    def markers(path: str) -> list[str]:
        following = api.latest(admin, f"{path}?limit=1").json["links"][0]["href"]
        return parse_qs(urlsplit(following).query)["marker"]

    return {
        "host": listed("/v1/hosts", "hosts", "name"),
        "server_id": [cloud.VICTIM, *listed("/v1/vps", "vps", "server_id")],
        "overlay_id": listed("/v1/overlays", "overlays", "id"),
        "name": listed("/v1/vps", "vps", "name"),
        "project_id": [cloud.ALPHA, cloud.BETA],
        "marker": [*markers("/v1/vps"), *markers("/v1/hosts"), *markers("/v1/actions")],
        "action_id": listed("/v1/actions", "actions", "id"),
        "escalation_id": listed("/v1/escalations", "escalations", "id"),
        "profile_id": listed("/v1/profiles", "profiles", "id"),
    }
