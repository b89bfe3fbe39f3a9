# SPDX-License-Identifier: Apache-2.0
"""A few made-up requests for every operation; `make api-fuzz` makes up many more."""

import base64

import pytest
import webob
import webob.dec

from tests import api_fuzz
from tests.unit.api import cloud
from tests.unit.api.client import IMPLIED, Api, Persona
from tests.unit.api.fuzz import PERSONAS, Population, Run, names_of, operation_of
from tests.unit.api.oracle import find_leaks
from vp_api.routes import ROUTES

EXAMPLES = 2
EVERY_OPERATION = {(method, path) for path, methods in ROUTES.items() for method in methods}
CHANGE = ("PATCH", "/v1/vps/{server_id}")
NEIGHBOUR = "neighbour-Db-7"


@pytest.fixture(scope="module")
def population():
    return Population(1)


def run_as(population, who):
    persona = PERSONAS[who]
    return Run(population.api, persona, population.names, population.words_hidden_from(persona))


def ask_all(run, examples=EXAMPLES):
    for operation in run.operations():
        run.ask(operation, examples, number=1)


@pytest.mark.parametrize("who", ["admin of the own project", "member of the own project"])
def test_every_operation_answers_as_its_document_says(population, who):
    run = run_as(population, who)
    ask_all(run)
    assert run.asked == EVERY_OPERATION
    statuses = {status for _, status in run.statuses}
    assert 200 in statuses
    assert len(statuses) > 2


def test_everybody_there_is_asks():
    projects = {cloud.ALPHA, cloud.BETA, cloud.GAMMA}
    everybody = {Persona(role, project_id) for role in IMPLIED for project_id in projects}
    assert everybody < set(PERSONAS.values())
    others = {None, Persona("admin", None), Persona("admin", None, system=True)}
    assert set(PERSONAS.values()) - everybody == others


def test_an_operation_that_somebody_did_not_ask_is_named(population):
    run = run_as(population, "no token")
    runs = {"no token": run}
    assert api_fuzz.not_asked(runs) == {"no token": sorted(map(" ".join, EVERY_OPERATION))}
    (health,) = (one for one in run.operations() if one.path == "/v1/health")
    run.ask(health, EXAMPLES, number=1)
    assert "GET /v1/health" not in api_fuzz.not_asked(runs)["no token"]
    for operation in run.operations():
        run.statuses[operation_of(operation), 401] += 1
    assert api_fuzz.not_asked(runs) == {}


WORDS_OF_ALL = {
    "VICTIM": cloud.VICTIM,
    "ALPHA": cloud.ALPHA,
    "NOISY": cloud.NOISY,
    "BETA": cloud.BETA,
    "host": "lab-1",
    "orphan": cloud.ORPHAN,
    "escalation": cloud.ESCALATION,
}


@pytest.mark.parametrize(
    ("project", "hidden"),
    [
        ("own", {"NOISY", "BETA", "host", "orphan", "escalation"}),
        ("foreign", {"VICTIM", "ALPHA", "host", "orphan", "escalation"}),
        ("empty", set(WORDS_OF_ALL)),
    ],
)
def test_what_is_hidden_from_whom(population, project, hidden):
    for role in ("nobody", "reader", "member", "manager"):
        words = population.words_hidden_from(PERSONAS[f"{role} of the {project} project"])
        assert {name for name, word in WORDS_OF_ALL.items() if word in words} == hidden
        assert len(words) > 100
    for role in ("admin", "service"):
        assert population.words_hidden_from(PERSONAS[f"{role} of the {project} project"]) == []


@pytest.mark.parametrize("who", ["no token", "admin without a project", "admin of the system"])
def test_everything_is_hidden_from_who_has_no_project(population, who):
    assert set(WORDS_OF_ALL.values()) < set(population.words_hidden_from(PERSONAS[who]))


def test_what_is_hidden_is_there_and_not_in_public(population):
    """Else finding none of it would prove nothing, and finding some of it would be wrong."""
    words = population.words_hidden_from(None)
    admin = Persona("admin")
    paths = [
        "/v1/hosts/lab-1",
        "/v1/escalations",
        *(f"/v1/hosts/{h}" for h in population.names["host"]),
    ]
    paths += [f"/v1/vps/{server_id}" for server_id in population.names["server_id"]]
    told = "".join(population.api.latest(admin, path).text for path in paths)
    found = {leak.word for leak in find_leaks(told, (), words)}
    assert {*WORDS_OF_ALL.values(), "noisy", "sleeper", "orphan", "6f1c2d3e-"} < found
    assert len(found) > len(words) / 2
    document = population.api.ask(admin, "/v1/openapi.json")
    assert find_leaks(document.text, document.headers.items(), words) == []


@pytest.mark.parametrize("role", ["admin", "manager"])
def test_an_agent_that_fails_fails_tenants_alone(role):
    """What a tenant orders is stored, and told later: no 5xx. An operator would get one."""
    population = Population(1)
    population.names["server_id"] = [cloud.VICTIM]
    run = run_as(population, f"{role} of the own project")
    population.answer_as(run.persona, number=1)
    assert bool(population.api.agents.failing) is (role == "manager")
    (change,) = (one for one in run.operations() if operation_of(one) == CHANGE)
    run.ask(change, 20, number=1)
    assert run.statuses[CHANGE, 200] > 0
    assert bool(population.api.agents.overrides) is (role == "admin")
    population.answer_as(run.persona, number=2)
    assert population.api.agents.failing == {}


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


def in_a_name(response):
    told = response.json
    told["vps"][0]["name"] = f"web, hurt by {NEIGHBOUR.upper()}"
    response.json = told


def in_the_marker(response):
    told = response.json
    marker = base64.urlsafe_b64encode(f'["{NEIGHBOUR}"]'.encode()).decode().rstrip("=")
    told["links"] = [{"rel": "next", "href": f"/v1/vps?marker={marker}"}]
    response.json = told


def in_a_header(response):
    response.headers["Link"] = f"</v1/vps?marker={NEIGHBOUR}>"


@pytest.mark.parametrize("leak", [in_a_name, in_the_marker, in_a_header])
def test_a_tenant_who_is_told_of_a_neighbour_is_found(leak):
    api = Api()
    run = Run(api, Persona("member"), names_of(api), secrets=[NEIGHBOUR])
    (operation,) = (one for one in run.operations() if one.path == "/v1/vps")
    run.ask(operation, 10, number=1)
    inner = api.application

    @webob.dec.wsgify
    def leaking(request):
        response = request.get_response(inner)
        if response.status_int == 200 and response.json.get("vps"):
            leak(response)
        return response

    api.application = leaking
    with pytest.raises(BaseException, match=f"GET /v1/vps .* tells .*{NEIGHBOUR}"):
        run.ask(operation, 10, number=1)
