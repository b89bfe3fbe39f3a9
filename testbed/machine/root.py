# SPDX-License-Identifier: Apache-2.0
"""The machine's root, made once of Debian packages and kept; each machine writes above it."""

import shutil
import subprocess
from pathlib import Path

from testbed.lab.errors import LabError
from testbed.machine import settings

_LOG = settings.CACHE / "build.log"


def build(release: str) -> Path:
    """At once if it is there. Raises LabError."""
    suite = settings.SUITES[release]
    root = settings.CACHE / suite
    if root.is_dir():
        return root
    _install_on_host()
    new = settings.CACHE / f"{suite}.new"
    shutil.rmtree(new, ignore_errors=True)
    print(f"machine: making a root of Debian {release}: a minute or two", flush=True)
    lines = settings.GUEST_PACKAGES.read_text().splitlines()
    packages = ",".join(line for line in lines if line and not line.startswith("#"))
    # It mounts /dev/shm and more of this host in there: these mounts end with it, however it ends,
    # and the next build removes nothing but what is the root's.
    own_mounts = ("unshare", "--mount", "--propagation=private")
    made = ("mmdebstrap", "--variant=minbase", f"--include={packages}", suite, str(new))
    _run(*own_mounts, *made)
    new.rename(root)
    return root


def _install_on_host() -> None:
    done = subprocess.run([settings.ROOT / "tools/install-debian-packages", "machine"], check=False)
    if done.returncode:
        raise LabError("the packages above are missing: install them, then try again")


def _run(*argv: str) -> None:
    settings.CACHE.mkdir(parents=True, exist_ok=True)
    with _LOG.open("wb") as log:
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, check=False)
    if done.returncode:
        raise LabError("mmdebstrap failed", _LOG)
