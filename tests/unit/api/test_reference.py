# SPDX-License-Identifier: Apache-2.0
"""The API reference says what the application does: its samples are asked and compared."""

import json
import re
import runpy
from pathlib import Path

import pytest
import webob

from tests.unit.api import cloud
from tests.unit.api.client import Api, Persona
from vp_api import policies
from vp_api.errors import Code
from vp_api.routes import PUBLIC, ROUTES
from vp_api.versions import VERSIONS

DOC = Path(__file__).parents[3] / "doc/source"
PAGE = (DOC / "api.md").read_text() + (DOC / "api-samples.md").read_text()
WITHOUT_SAMPLES = {
    ("GET", "/v1/policies"),  # every option, a thousand lines
}

ASKED_BY = {
    "admin": Persona("admin"),
    "reader": Persona("reader"),
    "member": Persona("member"),
    "member of another project": Persona("member", cloud.GAMMA),
}
SAMPLE = re.compile(
    r"As (?P<who>[^:\n]+):\n\n```http\n(?P<method>\w+) (?P<path>\S+)\n"
    r"(?P<version>OpenStack-.*?\n)?(?P<body>.*?)```\n\n"
    r"Answered with (?P<status>\d+):\n\n```json\n(?P<answer>.*?)```",
    re.DOTALL,
)
SAMPLES = [match.groupdict() for match in SAMPLE.finditer(PAGE)]


def with_needs(sample):
    """An action is told in the words of the controller that has its reason."""
    needs = ("vp",) if re.search(r'"(actions?|proposals)"', sample["answer"]) else ()
    return pytest.param(sample, marks=pytest.mark.needs_controllers(*needs))


@pytest.mark.parametrize(
    "sample",
    [with_needs(sample) for sample in SAMPLES],
    ids=lambda s: f"{s['who']} {s['method']} {s['path']}",
)
def test_sample(sample):
    body = json.loads(sample["body"]) if sample["body"].strip() else None
    headers = dict([sample["version"].strip().split(": ")]) if sample["version"] else {}
    who = ASKED_BY[sample["who"]]
    answer = Api().ask(who, sample["path"], sample["method"], body, headers=headers)
    assert answer.status == int(sample["status"])
    text = re.sub(r"req-[0-9a-f-]{36}", "req-...", answer.text)
    if (sample["method"], sample["path"]) == ("POST", "/v1/overlays"):  # Its id is made up.
        text = re.sub(r'("overlay":{"id":")[0-9a-f-]{36}', r"\1...", text)
    assert json.loads(text) == json.loads(sample["answer"])


def test_every_sample_is_found():
    assert PAGE.count("```json") == len(SAMPLES)


def test_every_operation_has_a_sample():
    asked = {(s["method"], pattern_of(s["path"])) for s in SAMPLES}
    guarded = {(m, path) for path, ms in ROUTES.items() if path not in PUBLIC for m in ms}
    assert guarded - asked == WITHOUT_SAMPLES


def pattern_of(path):
    request = webob.Request.blank(path)
    return next(p for p in ROUTES if re.fullmatch(re.sub("{.*?}", "[^/]+", p), request.path_info))


def test_every_route_stands_in_the_reference():
    rows = "".join(line for line in PAGE.splitlines() if line.startswith("| `"))
    table = re.findall(r"`([A-Z]+) (/\S*)`", rows)
    routes = [(method, path) for path, methods in ROUTES.items() for method in methods]
    assert sorted(table) == sorted(routes)


def test_the_reference_says_with_which_microversion_each_operation_came():
    rows = re.findall(r"^\| (`[A-Z]+ /.*?) \| (\d+\.\d+) \|", PAGE, re.MULTILINE)
    told = {one: since for names, since in rows for one in re.findall(r"`([A-Z]+) (/\S*)`", names)}
    assert told == {
        (method, path): str(operation.since)
        for path, methods in ROUTES.items()
        for method, operation in methods.items()
    }


def test_the_reference_tells_what_each_microversion_brought():
    rows = re.findall(r"^\| (\d+\.\d+) \|", PAGE, re.MULTILINE)
    assert rows == [str(version) for version in VERSIONS]


def test_every_error_code_stands_in_the_reference():
    for name, status, title in (code.value for code in Code):
        assert f"| `{name}` | {status} | {title} |" in PAGE


def test_every_guarded_route_is_one_that_a_policy_names():
    ruled = {
        (operation["method"], operation["path"])
        for rule in policies.list_rules()
        for operation in rule.operations
    }
    routes = {
        (method, path)
        for path, methods in ROUTES.items()
        if path not in PUBLIC
        for method in methods
    }
    assert ruled == routes
    assert all(rule.scope_types == ["project"] for rule in policies.list_rules())


def test_the_documentation_publishes_what_the_service_answers():
    """Its build makes the file anew."""
    published = DOC / "published" / "openapi.json"
    published.unlink(missing_ok=True)
    conf = runpy.run_path(str(DOC / "conf.py"))
    assert conf["html_extra_path"] == [published.parent.name]
    assert json.loads(published.read_text()) == Api().ask(None, "/v1/openapi.json").json
    assert f'href="{published.name}"' in PAGE
