# SPDX-License-Identifier: Apache-2.0
"""What tempest finds of our plugin, and what it knows of the API, held against the API itself.

The plugin imports nothing of ours, and tempest is not in this environment: its files are read.
"""

import ast
import configparser
import re
from collections import Counter
from pathlib import Path

import pytest

from vp_api import versions
from vp_api.errors import Code
from vp_api.routes import ROUTES
from vp_tempest_plugin import config

ROOT = Path(__file__).resolve().parents[2]
PLUGIN = ROOT / "vp_tempest_plugin"
TESTS = sorted((PLUGIN / "tests").rglob("test_*.py"))
CLIENT = PLUGIN / "services" / "performance_isolation.py"
PREFIX = "performance-isolation."


def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def constants_of(path: Path) -> dict[str, object]:
    """Names of a module and their values, as far as these are literals."""
    found = {}
    for node in tree_of(path).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            try:
                found[node.targets[0].id] = ast.literal_eval(node.value)
            except ValueError:
                continue
    return found


def test_the_entry_point_names_the_plugin():
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    name, _, where = setup["options.entry_points"]["tempest.test_plugins"].partition("=")
    module, _, attribute = where.strip().partition(":")
    assert name.strip() == "nova_vp"
    classes = [n.name for n in tree_of(PLUGIN / "plugin.py").body if isinstance(n, ast.ClassDef)]
    assert (module, attribute) == ("vp_tempest_plugin.plugin", classes[0])


def test_each_test_has_an_id_of_its_own():
    ids = []
    for path in TESTS:
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                named = [ast.unparse(decorator) for decorator in node.decorator_list]
                [one] = [name for name in named if "idempotent_id" in name]
                ids.append(one)
    assert len(ids) > 60
    assert [one for one, count in Counter(ids).items() if count > 1] == []


def test_it_knows_the_microversions_that_there_are():
    """Whoever adds one adds tests of what came with it."""
    known = constants_of(PLUGIN / "tests" / "api" / "test_versions.py")["SPOKEN"]
    assert known == tuple(str(version) for version in versions.VERSIONS)
    client = constants_of(CLIENT)
    assert (client["HEADER"], client["SERVICE_TYPE"]) == (versions.HEADER, versions.SERVICE_TYPE)


def test_its_options_are_documented_with_their_defaults():
    page = (ROOT / "doc" / "source" / "tempest.md").read_text()
    rows = dict(re.findall(r"^\| `(\[\w+\] \w+)` \|(?: `(.*?)`)? \|", page, re.MULTILINE))
    options = {
        f"[{group.name}] {option.name}": str(option.default)
        for group, listed in config.list_opts()
        for option in listed
    }
    assert rows == options


def test_each_code_that_a_test_expects_is_one_of_the_api():
    codes = {code.value[0].removeprefix(PREFIX) for code in Code}
    expected = {
        node.args[0].value
        for path in TESTS
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "self.refused"
        if isinstance(node.args[0], ast.Constant)
    }
    assert len(expected) > 10
    assert expected <= codes


def asked_by_client() -> list[tuple[str, tuple[str, ...]]]:
    """Method and path of each request of the client; None stands for a part that is filled in."""
    found = []
    for node in ast.walk(tree_of(CLIENT)):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("self.ask", "self._one"):
            given = [arg.value if isinstance(arg, ast.Constant) else None for arg in node.args]
            if "v1" in given:
                at = given.index("v1")
                found.append((str(given[at - 1]), tuple(given[at:])))
    return found


@pytest.mark.parametrize(("method", "path"), asked_by_client())
def test_each_request_of_the_client_is_an_operation(method, path):
    def is_like(route: str) -> bool:
        parts = route.strip("/").split("/")
        return len(parts) == len(path) and all(
            own in (None, part) for own, part in zip(path, parts, strict=True)
        )

    assert [route for route in ROUTES if is_like(route) and method in ROUTES[route]]
