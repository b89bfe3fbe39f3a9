# SPDX-License-Identifier: Apache-2.0
"""The generated samples (`make genconfig`, `make genpolicy`) are whole, and nothing warns."""

import os
import re
import subprocess
import sys
from pathlib import Path

from nova_vp import conf
from nova_vp.conf import database
from vp_api import identity, policies

ROOT = Path(__file__).parents[2]
OF_LIBRARIES = {"DEFAULT", "database", "keystone_authtoken", "oslo_messaging_rabbit", "oslo_policy"}


def generate(tool: str, target: str, output: Path) -> str:
    """As the Makefile's target does it, into another file."""
    recipe = re.search(rf"^{target}: venv\n\t.*({tool}.*)$", (ROOT / "Makefile").read_text(), re.M)
    assert recipe, f"the Makefile's {target} calls no {tool}"
    program, *arguments = recipe[1].split()
    done = subprocess.run(
        [Path(sys.executable).with_name(program), *arguments, "--output-file", output],
        cwd=ROOT,
        env={**os.environ, "PYTHONWARNINGS": "ignore"},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    return output.read_text()


def test_the_sample_configuration_has_every_group_and_option(tmp_path: Path) -> None:
    text = generate("oslo-config-generator", "genconfig", tmp_path / "sample")
    sections = dict(re.findall(r"^\[(\w+)\]\n(.*?)(?=^\[|\Z)", text, re.M | re.S))
    assert sections.keys() > OF_LIBRARIES
    for group, options in (*conf.list_opts(), *database.list_opts()):
        for option in options:
            assert f"\n#{option.name} =" in sections[group], f"[{group}] {option.name}"
    for name, value in identity.DEFAULTS.items():
        assert f"\n#{name} = {value}\n" in sections["keystone_authtoken"]
    assert f"\n#connection = {database.DEFAULT_CONNECTION}\n" in sections["database"]


def test_the_sample_policy_has_every_rule(tmp_path: Path) -> None:
    text = generate("oslopolicy-sample-generator", "genpolicy", tmp_path / "sample")
    for rule in policies.list_rules():
        assert f'#"{rule.name}": "{rule.check_str}"' in text
