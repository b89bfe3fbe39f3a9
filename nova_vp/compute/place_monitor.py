# SPDX-License-Identifier: Apache-2.0
"""Puts the monitor where nova-compute looks for it: `python -m nova_vp.compute.place_monitor`.

Nova takes monitors from its own folder alone. Were the file of our package, an installer would put
it beside our other files; where Nova lies elsewhere, or is installed as editable, that makes a
second folder `nova`, which hides Nova's own.
"""

import argparse
import importlib.util
import sys
from pathlib import Path

FILE = "vp.py"
TEXT = '''\
# SPDX-License-Identifier: Apache-2.0
"""nova-vp's monitor, here because Nova takes monitors from its own folder alone.

`python -m nova_vp.compute.place_monitor` made this file, and removes it with --remove.
"""

from nova_vp.compute.monitor import Monitor

__all__ = ["Monitor"]
'''


class CannotPlace(Exception):
    """The message says what to do."""


def place() -> Path:
    """Raises CannotPlace."""
    file = _folder() / FILE
    try:
        file.write_text(TEXT)
    except OSError as exc:
        raise CannotPlace(f"{file}: {exc.strerror}; run it as a user who may write there") from exc
    return file


def remove() -> Path:
    """Raises CannotPlace."""
    file = _folder() / FILE
    try:
        file.unlink(missing_ok=True)
    except OSError as exc:
        raise CannotPlace(f"{file}: {exc.strerror}; run it as a user who may write there") from exc
    return file


def _folder() -> Path:
    """Nova itself is not imported: that would patch this process."""
    found = importlib.util.find_spec("nova")
    places = list(found.submodule_search_locations or ()) if found else []
    for place in places:
        folder = Path(place, "compute", "monitors", "cpu")
        if folder.is_dir():
            return folder
    raise CannotPlace(
        f"{sys.executable} has no Nova: run this with the Python that nova-compute runs with"
    )


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m nova_vp.compute.place_monitor",
        description="Put nova-vp's monitor into the folder from which nova-compute takes monitors.",
    )
    parser.add_argument("--remove", action="store_true", help="Take it away instead")
    asked = parser.parse_args()
    try:
        print(f"removed {remove()}" if asked.remove else f"placed {place()}")
    except CannotPlace as exc:
        print(f"place_monitor: {exc}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
