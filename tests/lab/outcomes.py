# SPDX-License-Identifier: Apache-2.0
"""A plugin of pytest that writes down the outcome of each test as soon as it is known.

The file has one line per report: the outcome, a space, the test.
"""

from pathlib import Path

import pytest

from tests.lab.retry import FAILED, Outcomes


class Recorder:
    def __init__(self, path: Path) -> None:
        self._file = path.open("w", buffering=1)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._write(report)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Of setup and teardown only what is not well."""
        if report.when == "call" or not report.passed:
            self._write(report)

    def _write(self, report: pytest.CollectReport | pytest.TestReport) -> None:
        self._file.write(f"{report.outcome} {report.nodeid}\n")

    def pytest_unconfigure(self) -> None:
        self._file.close()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--outcomes", type=Path, required=True, help="the file to write")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Recorder(config.getoption("outcomes")))


def read(path: Path) -> Outcomes:
    """A test that failed in any of its reports failed."""
    found: dict[str, str] = {}
    for line in path.read_text().splitlines() if path.exists() else []:
        outcome, _, test = line.partition(" ")
        if found.get(test) != FAILED:
            found[test] = outcome
    return found
