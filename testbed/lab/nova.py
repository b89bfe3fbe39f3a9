# SPDX-License-Identifier: Apache-2.0
"""Which Nova the lab runs: the one of the project's environment, or a release in another one.

Chosen when the lab is brought up, and kept until it goes down. All but Nova's own processes are
the project's, whichever release this is.
"""

from dataclasses import dataclass
from pathlib import Path

from testbed.lab import settings
from testbed.lab.errors import LabError
from testbed.lab.supervise import write_atomically

CHOICE = settings.RUN / "nova-environment"
POLICIES = settings.ROOT / "etc" / "nova-vp"
WITHOUT_PROJECT_MANAGERS = 31
"""The last release that lacks rules which `nova-policy.yaml` names."""


@dataclass(frozen=True, slots=True)
class Nova:
    folder: Path
    """A virtual environment."""

    @property
    def release(self) -> int:
        """Raises LabError where there is none."""
        found = [*self.folder.glob("lib/python3*/site-packages/nova-[0-9]*.dist-info")]
        if not found:
            raise LabError(
                f"no Nova in {self.folder}: name a virtual environment that has it, such as those "
                "that `python -m tests.nova_matrix` makes in .cache"
            )
        return int(found[0].name.removeprefix("nova-").partition(".")[0])

    @property
    def python(self) -> str:
        return self.program("python")

    def program(self, name: str) -> str:
        return str(self.folder / "bin" / name)

    @property
    def policy_file(self) -> Path:
        """Of ours, for nova-api."""
        is_old = self.release <= WITHOUT_PROJECT_MANAGERS
        return POLICIES / ("nova-policy-31.yaml" if is_old else "nova-policy.yaml")


def chosen() -> Nova:
    """That of the lab that is up; where none is, the project's."""
    try:
        return Nova(Path(CHOICE.read_text()))
    except FileNotFoundError:
        return Nova(settings.VENV)


def choose(folder: Path | None) -> Nova:
    """For as long as this lab is up. None: whatever it has. Raises LabError for another one than
    it has, or none at all.
    """
    nova = chosen() if folder is None else Nova(folder.resolve())
    release = nova.release
    if CHOICE.exists() and chosen() != nova:
        raise LabError(
            f"the lab is up with Nova {chosen().release} of {chosen().folder}, not with Nova "
            f"{release} of {nova.folder}: run `lab down` first"
        )
    write_atomically(CHOICE, str(nova.folder))
    return nova
