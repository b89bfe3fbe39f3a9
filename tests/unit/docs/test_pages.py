# SPDX-License-Identifier: Apache-2.0
"""The pages name what the code has: options, specs, reasons, plugins, files, links."""

import dataclasses
import importlib
import re
from pathlib import Path

import pytest
from stevedore import DriverManager, ExtensionManager

from nova_vp import controllers, flavor_specs
from nova_vp.core.types.guest import Unmanaged
from nova_vp.core.types.policy import Mode
from nova_vp.core.types.sample import Incomplete
from tests.install.__main__ import FROM_WHEEL, PLACES, PLACES_AT_THE_END
from tests.install.guide import sections
from tests.unit.docs.pages import ALL, DOC, PAGES, ROOT, WRITTEN
from vp_agent.drivers.cache_partition import NAMESPACE as PARTITION
from vp_agent.drivers.counters import NAMESPACE
from vp_agent.monitors.base import NAMESPACE as MONITORS
from vp_agent.wiring import ACTUATORS
from vp_api.versions import HEADER, SERVICE_TYPE, VERSIONS

SHIPPED = sorted(path for path in (ROOT / "etc").rglob("*") if path.is_file())
NOT_FOR_READERS = {"config-generator.conf", "policy-generator.conf"}


@pytest.mark.parametrize("kind", [Mode, Unmanaged, Incomplete])
def test_every_value_that_an_operator_meets_is_explained(kind: type) -> None:
    for member in kind:
        assert f"`{member.value}`" in ALL


def test_every_flavor_spec_stands_there_with_its_values() -> None:
    page = (DOC / "flavors.md").read_text()
    for spec in flavor_specs.SPECS:
        [row] = re.findall(rf"^\| `{spec.key}` \| ([^|]*) \|", page, re.M)
        named = re.findall(r"`([^`]+)`", row)
        assert named
        assert all(flavor_specs.fault(spec.key, value) is None for value in named)
        assert sorted(named) == sorted(spec.allowed) if spec.allowed else spec.expected in row


INCLUDED = {
    name: one
    for name, one in controllers.installed().items()
    if type(one).__module__.startswith("nova_vp.")
}
"""Another package may be installed here too: the example is named in the pages."""


def test_flavor_keys_of_controllers_are_on_their_pages_alone() -> None:
    """So that a controller can go without an edit of these pages."""
    written = "\n".join(path.read_text() for path in WRITTEN)
    for key in (key for one in INCLUDED.values() for key in one.flavor_keys):
        assert f"`{key.key}`" in ALL
        assert key.key not in written


def test_no_written_page_names_an_option_or_a_reason_of_one_controller() -> None:
    written = "\n".join(path.read_text() for path in [ROOT / "README.md", *WRITTEN])
    for name, one in INCLUDED.items():
        assert not re.search(rf"\[controller_{name}\]", written)
        for field in dataclasses.fields(one.settings):
            assert f"`{field.name}" not in written
            assert f"[policy] {field.name}" not in written


def test_tenants_are_told_what_each_flavor_spec_means_for_them() -> None:
    page = (DOC / "tenants.md").read_text()
    assert {spec.key for spec in flavor_specs.SPECS} <= set(re.findall(r"`(vp:\w+)", page))


def test_every_counter_source_and_actuator_stands_there() -> None:
    for name in ExtensionManager(NAMESPACE).names() + ExtensionManager(ACTUATORS).names():
        assert f"`{name}`" in ALL


def test_everything_that_divides_caches_stands_there() -> None:
    for name in ExtensionManager(PARTITION).names():
        assert f"{name}, mounted by you" in ALL


def test_every_monitor_stands_there_with_its_settings() -> None:
    page = (DOC / "monitors.md").read_text()
    tables = re.findall(r"(?:^\| `\w+` \| [^|]+ \| .*\n)+", page, re.M)
    told = [dict(re.findall(r"^\| `(\w+)` \| ([^|]+) \|", table, re.M)) for table in tables]
    for name in ExtensionManager(MONITORS).names():
        settings = importlib.import_module(DriverManager(MONITORS, name).driver.__module__).Settings
        defaults = {one.name: str(one.default) for one in dataclasses.fields(settings)}
        assert f"`{name}`" in page
        assert defaults in told, name


def test_every_file_that_is_named_exists() -> None:
    """Those of the clone, that is, without a slash in front."""
    named = set(re.findall(r"(?<![\w/.])((?:etc|vp_agent|testbed)/[\w./-]*[\w*])", ALL))
    generated = {"etc/nova-vp/nova-vp.conf.sample", "etc/nova-vp/policy.yaml.sample"}
    assert named > generated
    assert {path for path in named - generated if not list(ROOT.glob(path))} == set()


def test_every_file_that_is_shipped_is_named() -> None:
    named = set(re.findall(r"(?<![\w/.])(etc/[\w./-]*[\w*])", ALL))
    told = {found for path in named if "*" in path or "." in path for found in ROOT.glob(path)}
    assert {path.name for path in SHIPPED if path not in told} == NOT_FOR_READERS


def test_every_unit_that_is_named_is_shipped() -> None:
    named = set(re.findall(r"\bvp-[\w-]+\.(?:service|timer)\b", ALL))
    assert named == {path.name for path in SHIPPED if path.parent.name == "systemd"}


def test_every_api_version_that_is_shown_is_spoken() -> None:
    named = set(re.findall(rf"{HEADER}: ([\w.-]+ [\w.]+)", ALL))
    assert f"{SERVICE_TYPE} {VERSIONS[-1]}" in named
    assert named <= {f"{SERVICE_TYPE} {version}" for version in (*VERSIONS, "latest")}


def anchors(path: Path) -> set[str]:
    titles = re.findall(r"^#+ (.*)$", path.read_text(), re.M)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def test_links_of_the_readme_lead_somewhere() -> None:
    """Those between pages are Sphinx's to check."""
    links = re.findall(r"\]\((?!http)([^)#]+)(?:#([^)]*))?\)", PAGES["README.md"])
    assert len(links) > 10
    for path, anchor in links:
        assert (ROOT / path).exists(), path
        assert not anchor or anchor in anchors(ROOT / path), (path, anchor)


def test_every_page_is_in_the_menu() -> None:
    menu = "\n".join(re.findall(r"```{toctree}(.*?)```", (DOC / "index.md").read_text(), re.S))
    pages = [*WRITTEN, *DOC.rglob("*.rst")]
    there_are = {str(path.relative_to(DOC).with_suffix("")) for path in pages} - {"index"}
    assert set(re.findall(r"^[\w/-]+$", menu, re.M)) == there_are


def test_sections_that_make_install_test_follows_are_in_the_guide() -> None:
    guide = sections()
    titles = [title for title, _ in (*PLACES, *PLACES_AT_THE_END)]
    assert all(guide[title].steps for title in (*titles, FROM_WHEEL))
