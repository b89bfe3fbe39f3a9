# SPDX-License-Identifier: Apache-2.0
"""Where the command `vp-agent` begins: says what is not installed, instead of a traceback.

Imports nothing by itself but the standard library; all else is `vp_agent/cli/main.py`'s.
"""

import sys
import warnings

OURS = ("vp_agent", "nova_vp")


def main() -> int:
    # Libraries import eventlet where it is installed, and it warns whoever typed the command.
    warnings.filterwarnings("ignore", message=r"\s*Eventlet is deprecated")
    try:
        from vp_agent.cli.main import main as run
    except ModuleNotFoundError as exc:
        if exc.name is None or exc.name.split(".")[0] in OURS:
            raise
        print(
            f"vp-agent: the Python package of {exc.name!r} is not installed. Install nova-vp with "
            "the extra `agent`: `pip install '.[agent]'`. The libvirt binding is compiled, which "
            "needs gcc, pkg-config and libvirt-dev.",
            file=sys.stderr,
        )
        return 1
    return run()
