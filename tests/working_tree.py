# SPDX-License-Identifier: Apache-2.0
"""The files of a working tree that git tracks, and the folders of our packages in it."""

import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

PACKAGES = {
    "nova_vp": "nova_vp",
    "vp_agent": "vp_agent",
    "vp_scheduler": "vp_scheduler",
    "vp_api": "api/vp_api",
    "vp_client": "vp_client",
    "vp_dashboard": "vp_dashboard",
    "vp_sim": "vp_sim",
    "vp_tempest_plugin": "vp_tempest_plugin",
}
"""Folder of each."""


def tracked_files(root: Path) -> list[str]:
    """Relative to `root`, without those that are deleted and not committed."""
    listed = subprocess.run(
        ["git", "-C", root, "ls-files", "-z"], check=True, capture_output=True, text=True
    )
    return [name for name in listed.stdout.split("\0") if name and (root / name).is_file()]


def copy_files(names: Iterable[str], source: Path, target: Path) -> None:
    for name in names:
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source / name, target / name)
