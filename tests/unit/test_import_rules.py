# SPDX-License-Identifier: Apache-2.0
"""The house's import rules: the core is pure, the shared package imports none of the others.

The code is read, not imported, so that an import inside a function counts too.
"""

import ast
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = {
    "nova_vp": "nova_vp",
    "vp_agent": "vp_agent",
    "vp_scheduler": "vp_scheduler",
    "vp_api": "api/vp_api",
    "vp_client": "vp_client",
    "vp_sim": "vp_sim",
}
MAY_IMPORT = {
    "nova_vp": set(),
    "vp_agent": {"nova_vp"},
    "vp_scheduler": {"nova_vp"},
    "vp_api": {"nova_vp"},
    "vp_client": {"nova_vp"},
    "vp_sim": {"nova_vp", "vp_agent"},
}
IMPURE = {
    "asyncio", "ctypes", "datetime", "io", "logging", "multiprocessing", "os", "pathlib",
    "queue", "random", "secrets", "select", "shutil", "signal", "socket", "sqlite3", "subprocess",
    "sys", "tempfile", "threading", "time", "urllib", "uuid",
}  # fmt: skip
IMPURE_CALLS = {"open", "print", "input", "exec", "eval", "__import__"}


def imports_of(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            found.add(node.module or "")
    return found


def modules(folder: str) -> list[Path]:
    found = sorted((ROOT / folder).rglob("*.py"))
    assert found, f"no modules under {folder}: has it moved?"
    return found


@pytest.mark.parametrize("package", PACKAGES)
def test_packages_import_only_what_they_may(package):
    others = set(PACKAGES) - {package} - MAY_IMPORT[package]
    outside = {"tests", "testbed"} | others
    for path in modules(PACKAGES[package]):
        wrong = {name for name in imports_of(path) if name.split(".")[0] in outside}
        assert not wrong, f"{path.relative_to(ROOT)} imports {wrong}"


def test_the_core_imports_the_pure_standard_library_and_itself_alone():
    for path in modules("nova_vp/core"):
        for name in imports_of(path):
            top = name.split(".")[0]
            is_own = name.startswith("nova_vp.core")
            is_pure = top in sys.stdlib_module_names and top not in IMPURE
            assert is_own or is_pure, f"{path.relative_to(ROOT)} imports {name}"


def test_the_core_calls_nothing_that_reaches_out():
    for path in modules("nova_vp/core"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id not in IMPURE_CALLS, f"{path}: calls {node.func.id}"


def test_the_drivers_do_not_know_the_tick():
    upward = {
        "vp_agent.loop.tick",
        "vp_agent.cli.main",
        "vp_agent.loop.executor",
        "vp_agent.loop.command_handler",
    }
    for path in modules("vp_agent/drivers"):
        assert not imports_of(path) & upward, f"{path.relative_to(ROOT)} imports the tick"


def test_nothing_outside_a_driver_talks_to_libvirt():
    for path in modules("vp_agent"):
        is_driver = "drivers" in path.parts
        assert is_driver or "libvirt" not in imports_of(path), path.relative_to(ROOT)
