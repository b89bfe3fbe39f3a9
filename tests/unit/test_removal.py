# SPDX-License-Identifier: Apache-2.0
"""The core stands without any one of its controllers. `make removal-test` tries all unit tests."""

import pytest

from tests import removal


@pytest.mark.parametrize("name", removal.own())
def test_without_one_controller_the_pipeline_passes_its_tests(name, tmp_path):
    assert removal.failures(name, tmp_path, is_quick=True) == []
