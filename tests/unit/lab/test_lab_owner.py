# SPDX-License-Identifier: Apache-2.0
"""One lab per machine: another checkout neither repairs nor ends it."""

from pathlib import Path

import pytest

from testbed.lab import cgroups, settings, up
from testbed.lab.errors import LabError


@pytest.fixture
def alias(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Of the lab's bridge: the checkout that brought it up. Whoever ends its processes is seen."""
    bridge = tmp_path / "bridge"
    bridge.mkdir()
    monkeypatch.setattr(up, "BRIDGE_PATH", bridge)
    monkeypatch.setattr(cgroups, "read_pids", _end)
    monkeypatch.setattr(cgroups, "kill_all", _end)
    return bridge / "ifalias"


class Ended(Exception):
    pass


def _end(*_: object) -> None:
    raise Ended


@pytest.mark.parametrize("command", [lambda: up.down(up.Progress()), up._begin])
def test_a_lab_of_another_checkout_is_left_alone(command, alias: Path, tmp_path: Path) -> None:
    alias.write_text(f"{tmp_path}\n")
    with pytest.raises(LabError, match="is up; run"):
        command()


@pytest.mark.parametrize("owner", [str(settings.ROOT), "/nonexistent/checkout", ""])
def test_ours_and_one_whose_checkout_is_gone_are_ended(owner: str, alias: Path) -> None:
    alias.write_text(f"{owner}\n")
    with pytest.raises(Ended):
        up.down(up.Progress())


def test_what_lacks_its_bridge_is_ended_too(alias: Path) -> None:
    alias.parent.rmdir()
    with pytest.raises(Ended):
        up.down(up.Progress())


def test_what_a_checkout_left_that_is_gone_is_not_repaired(alias: Path) -> None:
    alias.write_text("/nonexistent/checkout\n")
    with pytest.raises(LabError, match="is up; run"):
        up._begin()
