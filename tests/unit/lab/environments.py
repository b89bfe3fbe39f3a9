# SPDX-License-Identifier: Apache-2.0
"""Virtual environments by what the lab reads of them: the names of their packages."""

from pathlib import Path

from testbed.lab.nova import Nova


def an_environment(folder: Path, *packages: str) -> Nova:
    """`packages` by name and version, as in `nova-31.3.1`."""
    for package in packages:
        site = folder / "lib" / "python3.11" / "site-packages"
        (site / f"{package}.dist-info").mkdir(parents=True)
    return Nova(folder)
