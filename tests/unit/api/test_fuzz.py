# SPDX-License-Identifier: Apache-2.0
"""A few made-up requests for every operation; `make api-fuzz` makes up many more."""

import pytest
import webob
import webob.dec

from tests.unit.api.client import Api, Persona
from tests.unit.api.fuzz import Run, names_of

EXAMPLES = 2


@pytest.fixture(scope="module")
def api():
    return Api()


@pytest.mark.parametrize("role", ["admin", "member"])
def test_every_operation_answers_as_its_document_says(api, role):
    run = Run(api, Persona(role), names_of(api))
    for operation in run.operations():
        run.ask(operation, EXAMPLES, number=1)
    assert run.statuses[200] > len(run.statuses) > 2


@pytest.mark.parametrize("status", [500, 200])
def test_an_answer_that_the_document_does_not_know_is_found(status):
    api = Api()
    run = Run(api, Persona("admin"), names_of(api))
    (operation,) = (one for one in run.operations() if one.path == "/v1/health")
    api.application = webob.dec.wsgify(
        lambda request: webob.Response(json={"health": "fine"}, status=status)
    )
    with pytest.raises(BaseException, match=r"Server error|violates schema"):
        run.ask(operation, EXAMPLES, number=1)
