# SPDX-License-Identifier: Apache-2.0
"""The API reference says what the application does: its samples are asked and compared."""

import json
import re
from pathlib import Path

import pytest

from tests.unit.api import cloud
from tests.unit.api.client import Api, Persona
from vp_api import policies
from vp_api.errors import Code
from vp_api.routes import PUBLIC, ROUTES

PAGE = (Path(__file__).parents[3] / "doc/source/api.md").read_text()

ASKED_BY = {
    "admin": Persona("admin"),
    "reader": Persona("reader"),
    "member of another project": Persona("member", cloud.GAMMA),
}
SAMPLE = re.compile(
    r"As (?P<who>[^:\n]+):\n\n```http\n(?P<method>\w+) (?P<path>\S+)\n(?P<body>.*?)```\n\n"
    r"Answered with (?P<status>\d+):\n\n```json\n(?P<answer>.*?)```",
    re.DOTALL,
)
SAMPLES = [match.groupdict() for match in SAMPLE.finditer(PAGE)]


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda s: f"{s['who']} {s['method']} {s['path']}")
def test_sample(sample):
    body = json.loads(sample["body"]) if sample["body"].strip() else None
    answer = Api().ask(ASKED_BY[sample["who"]], sample["path"], sample["method"], body)
    assert answer.status == int(sample["status"])
    text = re.sub(r"req-[0-9a-f-]{36}", "req-...", answer.text)
    assert json.loads(text) == json.loads(sample["answer"])


def test_every_sample_is_found():
    assert PAGE.count("```json") == len(SAMPLES) >= len(ROUTES) - len(PUBLIC)


def test_every_route_stands_in_the_reference():
    table = re.findall(r"`([A-Z]+) (/\S*)`", PAGE)
    routes = [(method, path) for path, methods in ROUTES.items() for method in methods]
    assert sorted(table) == sorted(routes)


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
