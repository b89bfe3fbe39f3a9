# SPDX-License-Identifier: Apache-2.0
"""The core stands without any one of its controllers. A commit tries one of them in turn;
`make removal-test` tries each, with all unit tests."""

import pytest

from tests import removal
from tests.turns import in_turn

NAMES = removal.own()


@pytest.mark.parametrize("name", in_turn(NAMES, parts=len(NAMES)))
def test_without_one_controller_the_pipeline_passes_its_tests(name, tmp_path):
    assert removal.failures(name, tmp_path, is_quick=True) == []
