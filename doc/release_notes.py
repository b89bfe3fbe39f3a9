# SPDX-License-Identifier: Apache-2.0
"""Sphinx extension: what `.. release-notes::` of reno.sphinxext lists, whatever git knows.

reno asks git's history in which release a note came. Without a tag it calls that release 0.0.0. It
fails in a source distribution, which has no history, and in a shallow clone, whose history ends too
early. Where there is a cache, reno reads that. So a build writes the cache, and removes it.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from dulwich.errors import NotGitRepository
from reno.config import Config
from reno.loader import get_cache_filename
from reno.scanner import Scanner

ROOT = Path(__file__).resolve().parents[1]
PAGE = "release-notes"
UNTAGGED = "0.0.0"
"""What reno calls a release if no commit has a tag."""
Notes = dict[str, dict[str, Any]]
"""What each file says."""


def setup(app: Any) -> dict[str, bool]:
    app.connect("builder-inited", lambda app: write_cache(ROOT))
    app.connect("build-finished", lambda app, exception: cache_of(ROOT).unlink(missing_ok=True))
    # Its text is no file that Sphinx knows of.
    app.connect("env-get-outdated", lambda *arguments: [PAGE])
    return {"parallel_read_safe": True}


def write_cache(root: Path) -> None:
    releases = list_releases(root)
    cache = {
        "notes": [
            {"version": title, "files": [[name, None] for name in sorted(notes)]}
            for title, notes in releases.items()
        ],
        "dates": [],
        "file-contents": {
            name: note for notes in releases.values() for name, note in notes.items()
        },
    }
    cache_of(root).write_text(yaml.safe_dump(cache), encoding="utf-8")


def cache_of(root: Path) -> Path:
    return Path(get_cache_filename(Config(str(root))))


def list_releases(root: Path) -> dict[str, Notes]:
    """The notes of each release by its title, the newest first."""
    conf = Config(str(root))
    try:
        return _from_history(conf)
    except NotGitRepository:
        version, _, _ = conf.unreleased_version_title.partition(" ")
        return {f"Up to {version}": dict(_in_folder(root))}
    except KeyError:  # A parent of the oldest commit of a shallow clone.
        return {f"Up to {conf.unreleased_version_title}": dict(_in_folder(root))}


def _from_history(conf: Config) -> dict[str, Notes]:
    """Raises NotGitRepository, or KeyError where commits are missing."""
    releases: dict[str, Notes] = {}
    with Scanner(conf) as scanner:
        for version, files in scanner.get_notes_by_version().items():
            # As reno does: a hyphen stands before the number of commits since the last tag.
            is_released = "-" not in version and version != UNTAGGED
            notes = releases.setdefault(
                version if is_released else conf.unreleased_version_title, {}
            )
            for name, commit in files:
                notes[name] = yaml.safe_load(scanner.get_file_at_commit(name, commit))
    return releases


def _in_folder(root: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    for path in (root / "releasenotes/notes").glob("*.yaml"):
        yield str(path.relative_to(root)), yaml.safe_load(path.read_text(encoding="utf-8"))
