# SPDX-License-Identifier: Apache-2.0
"""Which Nova the lab runs: said once, kept until it is down, and different where releases are."""

from pathlib import Path

import pytest

from testbed.lab import controller, database, host, nova, settings
from testbed.lab.config import common_values, render
from testbed.lab.errors import LabError
from testbed.lab.host import Host
from testbed.lab.nova import Nova
from tests.unit.lab.environments import an_environment


@pytest.fixture(autouse=True)
def choice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Of a lab that was never up."""
    path = tmp_path / "choice"
    monkeypatch.setattr(nova, "CHOICE", path)
    return path


@pytest.fixture
def rendered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a lab whose configuration files are written."""
    for name in ("RUN", "LOG", "ETC"):
        monkeypatch.setattr(settings, name, tmp_path / name)
    of_host = tmp_path / "RUN" / "vp1" / "etc"
    for path in (
        tmp_path / "ETC" / "nova.conf",
        *(of_host / name for name in ("nova/nova.conf", "nova-vp/nova-vp.conf")),
        of_host / "libvirt" / "libvirtd.conf",
    ):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()


@pytest.fixture
def old(tmp_path: Path) -> Nova:
    return an_environment(tmp_path / "old", "nova-31.3.1", "novaclient-18.7.0")


@pytest.fixture
def new(tmp_path: Path) -> Nova:
    return an_environment(tmp_path / "new", "python_novaclient-18.9.0", "nova-34.0.0")


def test_the_lab_runs_the_projects_nova_unless_told_otherwise() -> None:
    assert nova.chosen() == Nova(settings.VENV)


def test_what_was_chosen_stays(old: Nova) -> None:
    assert nova.choose(old.folder) == old
    assert nova.choose(None) == nova.choose(old.folder) == nova.chosen() == old


def test_what_was_chosen_runs_beside_what_is_ours(old: Nova, rendered: None) -> None:
    nova.choose(old.folder)
    services = [*controller.compute(), *host.services(Host("vp1"))]
    programs = {one.name: one.argv[0] for one in services}
    for name in ("nova-scheduler", "nova-conductor", "nova-compute"):
        assert programs[name] == str(old.folder / "bin" / name)
    assert programs["nova-api"] == str(old.folder / "bin" / "python")
    assert programs["placement"] == str(settings.PYTHON)


def test_another_one_is_refused_until_the_lab_is_down(old: Nova, new: Nova) -> None:
    nova.choose(old.folder)
    with pytest.raises(LabError, match=r"with Nova 31 of .*/old, not with Nova 34 .*`lab down`"):
        nova.choose(new.folder)
    assert nova.chosen() == old


def test_an_environment_without_nova_is_refused_and_not_kept(tmp_path: Path) -> None:
    an_environment(tmp_path / "client", "novaclient-18.7.0")
    for folder in (tmp_path / "client", tmp_path / "nowhere"):
        with pytest.raises(LabError, match=r"no Nova in .*: name a virtual environment"):
            nova.choose(folder)
    assert nova.chosen() == Nova(settings.VENV)


def test_each_release_has_the_policy_that_operators_are_told_to_take(old: Nova, new: Nova) -> None:
    for its_nova, name in ((old, "nova-policy-31.yaml"), (new, "nova-policy.yaml")):
        assert its_nova.policy_file.name == name
        assert its_nova.policy_file.is_file()
        values = controller.controller_values(common_values(its_nova))
        assert f"policy_file = {its_nova.policy_file}\n" in render("nova.conf", values)


def test_its_schemas_are_its_own(old: Nova, new: Nova, choice: Path) -> None:
    paths = set()
    for its_nova in (old, new):
        nova.choose(its_nova.folder)
        paths.add(database.dump_path())
        choice.unlink()
    assert len(paths) == 2
    assert {path.name.split("-")[1] for path in paths} == {"old", "new"}
