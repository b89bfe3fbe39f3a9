# SPDX-License-Identifier: Apache-2.0
"""Prometheus' own checks of rules, and what they say."""

import subprocess
from pathlib import Path
from typing import Any

import yaml


def promtool(*words: str | Path) -> tuple[int, str]:
    """The exit status and all that it prints."""
    done = subprocess.run(
        ["promtool", *map(str, words)], capture_output=True, text=True, timeout=120
    )
    return done.returncode, done.stdout + done.stderr


def check_rules(folder: Path, rules: dict[str, Any]) -> tuple[int, str]:
    file = folder / "rules.yaml"
    file.write_text(yaml.safe_dump(rules))
    return promtool("check", "rules", file)


def run_rule_tests(
    folder: Path, rules: dict[str, Any], tests: list[dict[str, Any]]
) -> tuple[int, str]:
    (folder / "rules.yaml").write_text(yaml.safe_dump(rules))
    file = folder / "tests.yaml"
    file.write_text(yaml.safe_dump({"rule_files": ["rules.yaml"], "tests": tests}))
    return promtool("test", "rules", file)
