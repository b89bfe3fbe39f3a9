# SPDX-License-Identifier: Apache-2.0
"""The release notes are what reno takes, and name what the code has. Options and commands that they
name are looked up with those of the pages, in `test_options.py` and `test_commands.py`."""

import configparser
import dataclasses
import importlib.util
import re
import subprocess
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml
from reno.config import Config
from reno.loader import Loader

from nova_vp import controllers, flavor_specs
from tests.unit.docs.pages import NOTE_FILES, NOTES, ROOT, controller_of, inline
from vp_api.routes import ROUTES

CONF = Config(str(ROOT))
SECTIONS = {section.name for section in CONF.sections}
PRELUDE = CONF.prelude_section_name
TITLE = CONF.unreleased_version_title
TEXT = "\n".join(NOTES.values())
NOTE = "---\nfeatures:\n  - |\n    A feature.\n"


def loaded(path: Path) -> dict[str, Any]:
    return dict(yaml.safe_load(path.read_text()))


@pytest.mark.parametrize("path", NOTE_FILES, ids=lambda path: path.name)
def test_a_note_has_known_sections_with_texts(path: Path) -> None:
    note = loaded(path)
    assert isinstance(note.pop(PRELUDE, ""), str)
    assert set(note) <= SECTIONS
    for items in note.values():
        assert items
        assert all(isinstance(item, str) and item.strip() for item in items)


def test_names_are_those_of_reno_and_no_id_is_used_twice() -> None:
    names = "\n".join(path.name for path in NOTE_FILES)
    ids = re.findall(r"^[\w-]+-([0-9a-f]{16})\.yaml$", names, re.M)
    assert len(set(ids)) == len(NOTE_FILES) > 20


def test_one_note_has_the_prelude_of_a_release() -> None:
    assert sum(PRELUDE in loaded(path) for path in NOTE_FILES) == 1


def test_options_and_commands_of_notes_are_among_those_that_are_looked_up() -> None:
    looked_up = set(inline())
    for text in NOTES.values():
        assert {" ".join(code.split()) for code in re.findall(r"`([^`]+)`", text)} <= looked_up
    assert len(re.findall(r"`\[\w+\] \w+", TEXT)) > 40
    assert len(re.findall(r"`openstack vp \w", TEXT)) > 20


def test_extra_specs_exist() -> None:
    keys = {spec.key for spec in flavor_specs.SPECS}
    keys |= {key.key for one in controllers.installed().values() for key in one.flavor_keys}
    named = set(re.findall(r"(?<!\w)vp:\w+", TEXT))
    assert len(named) > 8
    assert named - keys == set()


def test_requests_exist() -> None:
    there_are = {f"{method} {path}" for path, methods in ROUTES.items() for method in methods}
    named = set(re.findall(r"(?:GET|PUT|POST|PATCH|DELETE) /v1[\w{}/.-]*", TEXT))
    assert named
    assert named - there_are == set()


def test_files_exist() -> None:
    named = set(re.findall(r"(?<![\w/.])(?:etc/nova-vp|vp_agent|doc)/[\w./-]*\w", TEXT))
    assert named
    assert {path for path in named if not (ROOT / path).exists()} == set()


@pytest.mark.parametrize("note", [note for note in NOTES if controller_of(note) is None])
def test_options_and_keys_of_a_controller_are_in_its_own_note_alone(note: str) -> None:
    """So that a controller can go without an edit of the others."""
    for name, one in controllers.installed().items():
        named = [f"[controller_{name}]", *(f"`{key.key}" for key in one.flavor_keys)]
        named += [f"[policy] {field.name}`" for field in dataclasses.fields(one.settings)]
        assert [text for text in named if text in NOTES[note]] == []


def test_the_title_of_notes_without_a_release_is_the_version_to_come() -> None:
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    assert f"{setup['metadata']['version']} (not yet released)" == TITLE


@pytest.fixture(scope="module")
def release_notes() -> ModuleType:
    """The extension of Sphinx."""
    spec = importlib.util.spec_from_file_location("release_notes", ROOT / "doc/release_notes.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def git(folder: Path, *words: str) -> None:
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
    subprocess.run(["git", "-C", folder, *identity, *words], check=True, capture_output=True)


def add_note(folder: Path, name: str) -> str:
    path = folder / "releasenotes/notes" / f"{name}.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(NOTE)
    return str(path.relative_to(folder))


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """Two commits, and a note from the first one."""
    folder = tmp_path / "clone"
    add_note(folder, f"first-{1:016x}")
    (folder / "releasenotes/config.yaml").write_text(f"unreleased_version_title: {TITLE}\n")
    git(folder, "init", "--quiet")
    for message in ("first", "second"):
        git(folder, "add", "--all")
        git(folder, "commit", "--quiet", "--allow-empty", "--message", message)
    return folder


FIRST = f"releasenotes/notes/first-{1:016x}.yaml"


def test_a_clone_without_tags_has_the_version_to_come(
    release_notes: ModuleType, clone: Path
) -> None:
    assert release_notes.list_releases(clone) == {TITLE: {FIRST: yaml.safe_load(NOTE)}}


def test_notes_since_a_tag_are_together_committed_or_not(
    release_notes: ModuleType, clone: Path
) -> None:
    git(clone, "tag", "0.0.9")
    second, third = (add_note(clone, f"later-{number:016x}") for number in (2, 3))
    git(clone, "add", second)
    git(clone, "commit", "--quiet", "--message", "third")
    git(clone, "add", third)
    found = release_notes.list_releases(clone)
    assert {title: set(notes) for title, notes in found.items()} == {
        TITLE: {second, third},
        "0.0.9": {FIRST},
    }


def test_a_shallow_clone_has_all_notes(
    release_notes: ModuleType, clone: Path, tmp_path: Path
) -> None:
    git(tmp_path, "clone", "--quiet", "--depth", "1", clone.as_uri(), "shallow")
    [(title, notes)] = release_notes.list_releases(tmp_path / "shallow").items()
    assert (title, set(notes)) == (f"Up to {TITLE}", {FIRST})


def test_a_source_distribution_has_all_notes(
    release_notes: ModuleType, clone: Path, tmp_path: Path
) -> None:
    (clone / ".git").rename(tmp_path / "elsewhere")
    [(title, notes)] = release_notes.list_releases(clone).items()
    assert (title, set(notes)) == (f"Up to {TITLE.split()[0]}", {FIRST})


def test_reno_reads_the_cache_that_a_build_writes(release_notes: ModuleType, clone: Path) -> None:
    (clone / ".git").rename(clone / "elsewhere")
    release_notes.write_cache(clone)
    with Loader(Config(str(clone))) as loader:
        [version] = loader.versions
        [(name, commit)] = loader[version]
        assert loader.parse_note_file(name, commit) == yaml.safe_load(NOTE)
