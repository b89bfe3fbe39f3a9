# SPDX-License-Identifier: Apache-2.0
"""A virtual environment per release of Nova and version of Python, kept in the cache."""

import hashlib
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / ".cache"
UV = ROOT / ".venv" / "bin" / "uv"
CURRENT = ROOT / "constraints.txt"
RELEASES = {
    "31": ROOT / "tools" / "nova-releases" / "31.txt",
    "32": ROOT / "tools" / "nova-releases" / "32.txt",
    "33": ROOT / "tools" / "nova-releases" / "33.txt",
    "34": CURRENT,
}
PYTHON = Path("/usr/bin/python3.11")
OF_A_CLOUD = ("libvirt-python", "PyMySQL", "python-memcached", "waitress")
"""What Nova's services have beside Nova where they run, and what serves its API in the lab."""
PACKAGES = ("-e", ".", "nova", "pytest", "hypothesis", *OF_A_CLOUD)
"""No extra of ours: what it brings is not there in Nova's processes."""


@dataclass(frozen=True, slots=True)
class Environment:
    release: str
    interpreter: Path = PYTHON

    @property
    def name(self) -> str:
        """`33`, or `33-python3.13` with another Python than the one that the project has."""
        if self.interpreter == PYTHON:
            return self.release
        return f"{self.release}-{self.interpreter.resolve().name}"

    @property
    def folder(self) -> Path:
        return CACHE / f"nova-{self.name}"

    @property
    def python(self) -> Path:
        return self.folder / "bin" / "python"

    @property
    def pins(self) -> str:
        """The release's, and ours for what it does not speak of."""
        pins = _read_pins(CURRENT) | _read_pins(RELEASES[self.release])
        return "".join(f"{name}=={version}\n" for name, version in sorted(pins.items()))

    @property
    def shape(self) -> str:
        """Another one, and it is made anew."""
        parts = [(ROOT / "setup.cfg").read_text(), self.pins, *PACKAGES, str(self.interpreter)]
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def ensure(environment: Environment) -> None:
    stamp = environment.folder / ".complete"
    if stamp.exists() and stamp.read_text() == environment.shape:
        return
    folder = environment.folder
    print(f"making {folder.relative_to(ROOT)} …", file=sys.stderr, flush=True)
    subprocess.run([environment.interpreter, "-m", "venv", "--clear", folder], check=True)
    pinned = folder / "constraints.txt"
    pinned.write_text(environment.pins)
    install = [UV, "pip", "install", "-q", "--compile-bytecode", "--python", environment.python]
    subprocess.run([*install, "-c", pinned, *PACKAGES], cwd=ROOT, check=True)
    place = [environment.python, "-m", "nova_vp.compute.place_monitor"]
    subprocess.run(place, check=True, stdout=subprocess.DEVNULL)
    stamp.write_text(environment.shape)


def version(environment: Environment, package: str) -> str:
    return _ask(environment, f"importlib.metadata.version({package!r})")


def python_version(environment: Environment) -> str:
    return _ask(environment, "platform.python_version()")


def _ask(environment: Environment, expression: str) -> str:
    program = f"import importlib.metadata, platform; print({expression})"
    done = subprocess.run([environment.python, "-c", program], check=True, capture_output=True)
    return done.stdout.decode().strip()


def _read_pins(path: Path) -> dict[str, str]:
    found = re.findall(r"^([\w.-]+)==(\S+)", path.read_text(), re.MULTILINE)
    return {re.sub(r"[-_.]+", "-", name).lower(): version for name, version in found}
