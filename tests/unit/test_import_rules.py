# SPDX-License-Identifier: Apache-2.0
"""The house's import rules: the core is pure, the shared package imports none of the others.

The code is read, not imported, so that an import inside a function counts too.
"""

import ast
import configparser
import sys
from pathlib import Path

import pytest

from tests.working_tree import PACKAGES

ROOT = Path(__file__).resolve().parents[2]
MAY_IMPORT = {
    "nova_vp": set(),
    "vp_agent": {"nova_vp"},
    "vp_scheduler": {"nova_vp"},
    "vp_api": {"nova_vp", "vp_scheduler"},
    "vp_client": {"nova_vp"},
    "vp_dashboard": {"nova_vp", "vp_client"},
    "vp_sim": {"nova_vp", "vp_agent"},
    "vp_tempest_plugin": set(),
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
            named = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {name for name in named if is_module(name)} or {str(node.module)}
    return found


def is_module(name: str) -> bool:
    """Of this project: `from nova_vp.core import step` imports a module."""
    top, _, rest = name.partition(".")
    path = ROOT / PACKAGES.get(top, top) / rest.replace(".", "/")
    return path.with_suffix(".py").is_file() or (path / "__init__.py").is_file()


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


def test_vp_api_scores_hosts_as_schedulers_do_and_uses_nothing_else_of_theirs():
    found = {name for path in modules("api/vp_api") for name in imports_of(path)}
    theirs = {name for name in found if name.startswith("vp_scheduler")}
    assert theirs == {"vp_scheduler.placement.host_digest", "vp_scheduler.placement.scoring"}


def test_the_core_imports_the_pure_standard_library_and_itself_alone():
    for path in modules("nova_vp/core"):
        for name in imports_of(path):
            top = name.split(".")[0]
            is_own = name.startswith("nova_vp.core")
            is_pure = top in sys.stdlib_module_names and top not in IMPURE
            assert is_own or is_pure, f"{path.relative_to(ROOT)} imports {name}"


def test_what_monitors_decide_is_pure_and_knows_types_alone():
    for path in modules("nova_vp/monitors"):
        for name in imports_of(path):
            top = name.split(".")[0]
            is_own = name.startswith(("nova_vp.core.types", "nova_vp.monitors"))
            is_pure = top in sys.stdlib_module_names and top not in IMPURE
            assert is_own or is_pure, f"{path.relative_to(ROOT)} imports {name}"


def test_the_core_calls_nothing_that_reaches_out():
    for path in modules("nova_vp/core"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id not in IMPURE_CALLS, f"{path}: calls {node.func.id}"


CORE_MAY_IMPORT = {
    "types": set(),
    "model": {"types"},
    "signals": {"types", "model"},
    "controllers": {"types", "model"},
    "escalation": {"types", "model"},
    "pipeline": {"types", "model", "signals", "controllers", "escalation"},
    "step": {"types", "model", "signals", "controllers", "escalation", "pipeline"},
    "overlay_step": {"types", "model", "pipeline"},
}


def core_imports(path: Path) -> set[str]:
    """Which modules of the core it imports, from `nova_vp.core.` on."""
    return {name.split(".", 2)[2] for name in imports_of(path) if name.startswith("nova_vp.core.")}


@pytest.mark.parametrize("room", CORE_MAY_IMPORT)
def test_the_core_imports_downwards_only(room):
    allowed = CORE_MAY_IMPORT[room] | {room}
    one = ROOT / f"nova_vp/core/{room}.py"
    paths = [one] if one.exists() else modules(f"nova_vp/core/{room}")
    for path in paths:
        wrong = {name for name in core_imports(path) if name.split(".")[0] not in allowed}
        assert not wrong, f"{path.relative_to(ROOT)} imports {wrong}"


REPLAYS_THE_CORE = {"recorded", "replay", "replay_log", "policies", "sim_drivers"}
"""Of the simulator: what stands where a host does, or runs the core again."""


def test_the_model_of_a_host_knows_nothing_of_the_core_but_its_types():
    """Else a policy would be judged by its own formulas."""
    for path in modules("vp_sim"):
        if path.relative_to(ROOT / "vp_sim").parts[0].removesuffix(".py") in REPLAYS_THE_CORE:
            continue
        wrong = {name for name in core_imports(path) if name.split(".")[0] != "types"}
        assert not wrong, f"{path.relative_to(ROOT)} imports {wrong}"


WITHOUT_COORDINATION = ("applications", "figures", "scheduler", "setups", "uncoordinated")


@pytest.mark.parametrize("name", WITHOUT_COORDINATION)
def test_the_model_of_applications_knows_nothing_of_the_agent(name):
    """It was fitted without coordination, and shares no formula with what it judges."""
    found = imports_of(ROOT / f"vp_sim/overlay/{name}.py")
    own = {f"vp_sim.overlay.{one}" for one in WITHOUT_COORDINATION}
    ours = {one for one in found if one.split(".")[0] in PACKAGES}
    assert ours <= own, f"{name} imports {ours - own}"


def test_every_room_of_the_core_has_its_rule():
    rooms = {path.relative_to(ROOT / "nova_vp/core").parts[0] for path in modules("nova_vp/core")}
    assert {room.removesuffix(".py") for room in rooms} - {"__init__"} == CORE_MAY_IMPORT.keys()


def test_controllers_never_import_each_other():
    folder = ROOT / "nova_vp/core/controllers"
    for path in modules("nova_vp/core/controllers"):
        own = path.relative_to(folder).parts[0]
        found = {name.split(".")[1] for name in core_imports(path) if "controllers." in name}
        found -= {"base"}
        assert found <= {own}, f"{path.relative_to(ROOT)} imports {found - {own}}"


def test_drivers_import_nothing_above_them():
    below = ("vp_agent.drivers", "vp_agent.privsep")
    for path in modules("vp_agent/drivers"):
        mine = {name for name in imports_of(path) if name.split(".")[0] == "vp_agent"}
        wrong = {name for name in mine if name != "vp_agent" and not name.startswith(below)}
        assert not wrong, f"{path.relative_to(ROOT)} imports {wrong}"


@pytest.mark.parametrize(
    "folder",
    ["vp_client", "nova_vp/cli", "vp_agent/cli", "api/vp_api/views"],
)
def test_clients_and_presentation_import_no_database(folder):
    """What leaves the database as values may be shown: `nova_vp.db.records` is no database."""
    for path in modules(folder):
        found = {
            name for name in imports_of(path) if name.split(".")[0] in ("sqlalchemy", "oslo_db")
        }
        found |= {name for name in imports_of(path) if name.startswith("nova_vp.db")}
        assert found <= {"nova_vp.db.records"}, f"{path.relative_to(ROOT)} imports {found}"


def test_records_are_values_without_a_database():
    allowed = {"nova_vp"} | sys.stdlib_module_names
    found = imports_of(ROOT / "nova_vp/db/records.py")
    assert {name.split(".")[0] for name in found} <= allowed
    assert not {name for name in found if name.startswith("nova_vp.db")}


def test_every_package_is_installed():
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    listed = set(config["options"]["packages"].split())
    found = {
        ".".join((package, *path.parent.relative_to(ROOT / folder).parts))
        for package, folder in PACKAGES.items()
        for path in modules(folder)
        if path.name == "__init__.py"
    }
    assert found == {name for name in listed if name.split(".")[0] in PACKAGES}


def test_nothing_outside_a_driver_talks_to_libvirt():
    for path in modules("vp_agent"):
        is_driver = "drivers" in path.parts
        assert is_driver or "libvirt" not in imports_of(path), path.relative_to(ROOT)
