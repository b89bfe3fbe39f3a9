# SPDX-License-Identifier: Apache-2.0
"""What one entry of the routes table says, and what its handler is called with.

An entry is everything there is to know of an operation: who may, what it takes, what it answers,
what can go wrong, since when. Dispatcher, OpenAPI document and tests all read it from there.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import webob
from microversion_parse import Version
from oslo_context.context import RequestContext

from vp_api.context import context_of
from vp_api.errors import Code
from vp_api.services import Services
from vp_api.versions import V1_0

Schema = Mapping[str, Any]
Answer = dict[str, Any]
NOTHING: Schema = {"type": "object", "properties": {}, "additionalProperties": False}


@dataclass(frozen=True, slots=True)
class Call:
    """One request, valid by what its operation says."""

    operation: "Operation"
    request: webob.Request
    services: Services
    version: Version
    query: Mapping[str, Any]
    body: Mapping[str, Any]

    @property
    def context(self) -> RequestContext:
        return context_of(self.request)

    @property
    def user_id(self) -> str:
        """There is one, and a project too, where the operation is not public: `RequireIdentity`."""
        return str(self.context.user_id)

    @property
    def project_id(self) -> str:
        return str(self.context.project_id)

    @property
    def sees_all(self) -> bool:
        """Whether the caller is an operator for this operation: all others are tenants."""
        rule = self.operation.operator_rule
        return rule is None or self.services.policy.allows(self.context, rule)


@dataclass(frozen=True, slots=True)
class Operation:
    handler: Callable[..., Answer]
    summary: str
    answer: Schema
    rule: str | None = None
    """The policy that is asked before anything else; None: anybody may, without a token."""
    operator_rule: str | None = None
    """Where tenants may too: `rule` is then asked for each row with the project that owns it, and
    who passes this one sees all rows in full."""
    tenant_answer: Schema | None = None
    query: Schema = field(default_factory=lambda: NOTHING)
    query_1_0: Schema | None = None
    """What 1.0 took, where 1.1 takes more."""
    body: Schema | None = None
    since: Version = V1_0
    errors: tuple[Code, ...] = ()
    """Besides those that any operation of its kind may answer with: `all_errors`."""

    @property
    def is_public(self) -> bool:
        return self.rule is None

    @property
    def all_errors(self) -> frozenset[Code]:
        codes = {Code.BAD_REQUEST, Code.VERSION_UNSUPPORTED, Code.INTERNAL, *self.errors}
        if not self.is_public:
            codes |= {Code.UNAUTHENTICATED, Code.FORBIDDEN, Code.IDENTITY_UNAVAILABLE}
            codes.add(Code.STORE_UNAVAILABLE)
        if self.body is not None:
            codes.add(Code.TOO_LARGE)
        if self.since > V1_0:
            codes.add(Code.NOT_FOUND)
        return frozenset(codes)

    def query_at(self, version: Version) -> Schema:
        return self.query_1_0 if version == V1_0 and self.query_1_0 is not None else self.query


Routes = Mapping[str, Mapping[str, Operation]]
"""By path, then by method."""
