# SPDX-License-Identifier: Apache-2.0
"""The operator's guide names what the code has: options, specs, reasons, plugins, files."""

import re
from pathlib import Path

import pytest
from oslo_config import iniparser
from stevedore import ExtensionManager

from nova_vp import conf, flavor_specs
from nova_vp.core.model import Homing, Incomplete, Mode, Unmanaged
from vp_agent.drivers.counters import NAMESPACE
from vp_agent.wiring import ACTUATORS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "doc/source/operators.md").read_text()
OURS = {(group, option.name): option for group, options in conf.list_opts() for option in options}


class Settings(iniparser.BaseParser):
    """`(group, name, value)` of every assignment."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, str, str]] = []

    def new_section(self, section: str) -> None:
        self._group = section

    def assignment(self, key: str, value: list[str]) -> None:
        self.found.append((self._group, key, "\n".join(value)))

    def comment(self, comment: str) -> None:
        """Nothing to keep."""


def settings() -> list[tuple[str, str, str]]:
    parser = Settings()
    for block in re.findall(r"```ini\n(.*?)```", PAGE, re.S):
        parser.parse(block.splitlines(keepends=True))
    return parser.found


def test_settings_of_our_groups_are_options_with_that_type() -> None:
    groups = {group for group, _ in OURS}
    mine = [setting for setting in settings() if setting[0] in groups]
    assert {group for group, _, _ in mine} >= {"agent", "bus", "vp_scheduler"}
    for group, name, value in mine:
        OURS[group, name].type(value)


def test_options_named_in_the_text_exist() -> None:
    named = re.findall(r"`\[(\w+)\]\s(\w+)", PAGE)
    groups = {group for group, _ in OURS}
    mine = [option for option in named if option[0] in groups]
    assert len(mine) > 5
    assert set(mine) <= OURS.keys()


@pytest.mark.parametrize("kind", [Mode, Homing, Unmanaged, Incomplete])
def test_every_value_that_an_operator_meets_is_explained(kind: type) -> None:
    for member in kind:
        assert f"`{member.value}`" in PAGE


def test_every_flavor_spec_stands_there_with_its_values() -> None:
    for spec in flavor_specs.SPECS:
        [row] = re.findall(rf"^\| `{spec.key}` \| ([^|]*) \|", PAGE, re.M)
        assert sorted(re.findall(r"`(\w+)`", row)) == sorted(spec.allowed)


def test_every_counter_source_and_actuator_stands_there() -> None:
    for name in ExtensionManager(NAMESPACE).names() + ExtensionManager(ACTUATORS).names():
        assert f"`{name}`" in PAGE


def test_every_file_that_is_named_exists() -> None:
    """Those of the clone, that is, without a slash in front."""
    named = set(re.findall(r"(?<![\w/])((?:etc|vp_agent|devstack)/[\w./-]*[\w*])", PAGE))
    generated = {"etc/nova-vp/nova-vp.conf.sample", "etc/nova-vp/policy.yaml.sample"}
    assert named > generated
    for path in named - generated:
        assert list(ROOT.glob(path)), path
