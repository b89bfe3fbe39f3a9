# SPDX-License-Identifier: Apache-2.0
"""What must come before any test imports anything: threads, as in all our processes. And which
tests are left out where a controller is not installed.

oslo.service takes eventlet by default, once for the process, as soon as oslo.messaging is imported.
"""

import os
import re
import warnings
from collections.abc import Iterable
from pathlib import Path

import hypothesis
import pytest

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # Its threading backend looks for eventlet, which warns.
    if os.environ.get("OS_NOVA_DISABLE_EVENTLET_PATCHING") == "0":
        # Asked for by tests.nova_matrix alone, as older schedulers of Nova run.
        from nova import monkey_patch

        if hasattr(monkey_patch, "patch"):  # Nova 31 patches as this is imported.
            monkey_patch.patch()
    else:
        from oslo_service import backend

        backend.init_backend(backend.BackendType.THREADING)

from nova_vp.controllers import installed

# How fast a test is says nothing about what it tests, on a busy machine least of all.
hypothesis.settings.register_profile(
    "unhurried", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("unhurried")

_MODULE_NEEDS = re.compile(r"^pytestmark = .*needs_controllers\(([^)]*)\)", re.MULTILINE)


def _are_missing(names: Iterable[str]) -> bool:
    return not set(names) <= installed().keys()


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """A module of tests that is about controllers which are not installed imports what is not
    there."""
    if collection_path.suffix != ".py":
        return None
    found = _MODULE_NEEDS.search(collection_path.read_text())
    return True if found and _are_missing(re.findall(r"\w+", found[1])) else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The same of single tests: each controller may go with its own."""
    gone = [
        item
        for item in items
        if any(_are_missing(mark.args) for mark in item.iter_markers("needs_controllers"))
    ]
    if gone:
        config.hook.pytest_deselected(items=gone)
        items[:] = [item for item in items if item not in gone]
