# SPDX-License-Identifier: Apache-2.0
"""The software PMU names the version of the plugin API that the QEMU which loads it takes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

PLUGIN = Path(__file__).parents[2] / "testbed/vpmu/vpmu.so"
SINCE_QEMU_9 = "int qemu_plugin_num_vcpus(void) { return 1; }\n"
READ_VERSION = """\
import ctypes, os, sys
print(ctypes.c_int.in_dll(ctypes.CDLL(sys.argv[1], os.RTLD_LAZY), "qemu_plugin_version").value)
"""


@pytest.mark.parametrize(("functions", "version"), [("", 1), (SINCE_QEMU_9, 2)])
def test_the_version_is_one_that_this_qemu_takes(
    tmp_path: Path, functions: str, version: int
) -> None:
    """In a process that has these functions, as QEMU has them, and loads it as QEMU does."""
    source, library = tmp_path / "qemu.c", tmp_path / "qemu.so"
    source.write_text(functions)
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, source], check=True)
    told = subprocess.run(
        [sys.executable, "-S", "-c", READ_VERSION, PLUGIN],
        env={**os.environ, "LD_PRELOAD": str(library)},
        check=True,
        capture_output=True,
        text=True,
    )
    assert told.stdout == f"{version}\n"
