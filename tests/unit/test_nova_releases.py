# SPDX-License-Identifier: Apache-2.0
"""What `tools/test-nova-releases` runs: every test of what runs inside Nova, on each release."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RUNNER = (ROOT / "tools" / "test-nova-releases").read_text()
PLUGINS = r"^(from|import) (vp_scheduler\.(filters|weighers|shared)|nova_vp\.compute|nova)\b"


def test_a_test_of_what_runs_in_novas_processes_says_so() -> None:
    files = [*(ROOT / "tests/unit").rglob("test_*.py"), *(ROOT / "tests/contract").rglob("*.py")]
    of_plugins = [path for path in files if re.search(PLUGINS, path.read_text(), re.MULTILINE)]
    assert of_plugins
    unmarked = [path for path in of_plugins if "pytest.mark.nova" not in path.read_text()]
    assert [str(path.relative_to(ROOT)) for path in unmarked] == []


@pytest.mark.parametrize("release", ["32", "33"])
def test_each_release_before_has_its_pins(release: str) -> None:
    assert f'"{release}": ROOT' in RUNNER
    pins = (ROOT / "tools" / "nova-releases" / f"{release}.txt").read_text()
    assert re.search(rf"^nova=={release}\.", pins, re.MULTILINE)


def test_ours_is_the_current_one() -> None:
    assert '"34": CURRENT' in RUNNER
    assert re.search(r"^nova==34\.", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
