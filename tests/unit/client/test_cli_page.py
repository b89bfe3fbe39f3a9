# SPDX-License-Identifier: Apache-2.0
"""The command line's page names every command; it and the tenants' page show what they print."""

import configparser
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "doc/source/cli.md").read_text()
SHOWN = PAGE + (ROOT / "doc/source/tenants.md").read_text()
SAMPLE = re.compile(r"As (operator|tenant):\n\n```console\n\$ openstack (.*?)\n(.*?)\n```", re.S)
USERS = {"operator": "admin", "tenant": "member"}


def test_every_command_is_on_the_page():
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    lines = setup["options.entry_points"]["openstack.vp.v1"].split("\n")
    there_are = {line.partition("=")[0].strip().replace("_", " ") for line in lines if line}
    told = set(re.findall(r"^\| `openstack (vp(?:[a-z -]+[a-z])?)", PAGE, re.M))
    assert told == there_are


def with_needs(who, command, said):
    """`vp explain` tells an action in the words of the controller that has its reason."""
    needs = ("vp",) if command.startswith("vp explain") else ()
    return pytest.param(who, command, said, marks=pytest.mark.needs_controllers(*needs))


@pytest.mark.parametrize(
    ("who", "command", "said"),
    [with_needs(*sample) for sample in SAMPLE.findall(SHOWN)],
    ids=lambda text: text.partition("\n")[0],
)
def test_samples(lab, who, command, said):
    ran = lab.run(command, user=USERS[who])
    assert ran.rc == 0, ran.err
    assert ran.out.rstrip("\n") == said


def test_there_are_samples():
    assert len(SAMPLE.findall(SHOWN)) == 6
