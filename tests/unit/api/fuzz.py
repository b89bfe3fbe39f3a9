# SPDX-License-Identifier: Apache-2.0
"""Requests made up from the served OpenAPI document, valid ones and others, as one persona.

Whatever comes back must be what the document says of it, and never a 5xx. Half of the paths name
what there is: made-up names alone would never get past 404. Tenants are never told a canary.
"""

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote_plus

from hypothesis import HealthCheck, Phase, Verbosity, given, seed, settings
from hypothesis import strategies as st

from tests.unit.api import cloud
from tests.unit.api.client import Api, Persona

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
OPERATORS = ("admin", "service")


@dataclass
class Run:
    """What one persona asks of one stored cloud."""

    api: Api
    persona: Persona
    names: dict[str, list[str]]
    """What there is, by name of the path's argument."""
    secrets: list[str] = field(default_factory=list)
    """What a tenant must never be told."""
    statuses: dict[int, int] = field(default_factory=dict)

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Any:
        environ["test.persona"] = self.persona
        return self.api.application(environ, start_response)

    def operations(self) -> Iterator[Any]:
        schema = schemathesis.openapi.from_wsgi("/v1/openapi.json", self)
        for found in schema.get_all_operations():
            yield found.ok()

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
            for name in case.path_parameters:
                there = self.names[name]
                case.path_parameters[name] = there[pick % len(there)]
        response = case.call()
        self.statuses[response.status_code] = self.statuses.get(response.status_code, 0) + 1
        case.validate_response(response, checks=list(CHECKS))
        if self.persona.role not in OPERATORS:
            self._look_for_secrets(case, response)

    def _look_for_secrets(self, case: Any, response: Any) -> None:
        asked = unquote_plus(f"{case.formatted_path} {case.query} {case.body}")
        told = unquote_plus(response.content.decode() + str(response.headers))
        found = [one for one in self.secrets if one in told and one not in asked]
        assert not found, f"{case.method} {asked} tells {found}"


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

    return {
        "host": listed("/v1/hosts", "hosts", "name"),
        "server_id": [cloud.VICTIM, *listed("/v1/vps", "vps", "server_id")],
        "action_id": listed("/v1/actions", "actions", "id"),
        "escalation_id": listed("/v1/escalations", "escalations", "id"),
        "profile_id": listed("/v1/profiles", "profiles", "id"),
    }
