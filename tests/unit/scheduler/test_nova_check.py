# SPDX-License-Identifier: Apache-2.0
"""Before nova-scheduler starts: whether this Nova loads what its nova.conf names."""

from pathlib import Path

import pytest

from vp_scheduler import nova_check

pytestmark = pytest.mark.nova

OURS = """\
[filter_scheduler]
available_filters = nova.scheduler.filters.all_filters
available_filters = vp_scheduler.filters.VPIsolationFilter
enabled_filters = ComputeFilter,VPIsolationFilter
weight_classes = nova.scheduler.weights.all_weighers,vp_scheduler.weighers.VPInterferenceWeigher
"""


@pytest.mark.parametrize(
    ("label", "old", "new", "status", "words"),
    [
        ("as the guide has it", "none", "none", 0, "ready: nova "),
        ("not installed here", "filters.VPI", "gone.VPI", 2, "would not start"),
        ("not available", "available_filters = vp_", "#", 2, "VPIsolationFilter is in none"),
        ("not enabled", ",VPIsolationFilter", "", 2, "strict servers go anywhere"),
        ("another filter is gone", "ComputeFilter", "RamFilter", 2, "RamFilter is in none"),
        ("a weigher is gone", "weighers.VP", "gone.VP", 2, "weight_classes: "),
        ("no weigher", ",vp_scheduler.weighers.VPInterferenceWeigher", "", 1, "soft servers"),
        (
            "width unknown",
            "]\n",
            "]\ntrack_instance_changes = false\n",
            1,
            "track_instance_changes",
        ),
    ],
)
def test_what_nova_would_not_load_is_told_before_it_starts(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    label: str,
    old: str,
    new: str,
    status: int,
    words: str,
) -> None:
    file = tmp_path / "nova.conf"
    file.write_text(OURS.replace(old, new, 1))
    assert nova_check.main([f"--config-file={file}"]) == status
    assert words in capsys.readouterr().out


def test_a_file_that_is_not_there_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert nova_check.main(["--config-file=/nonexistent/nova.conf"]) == 2
    assert "/nonexistent/nova.conf" in capsys.readouterr().err


def test_a_release_that_was_not_tested_is_told() -> None:
    conf = nova_check.cfg.ConfigOpts()
    nova_check.nova.conf.scheduler.register_opts(conf)
    conf([], default_config_files=[])
    releases = ("30.0.0", "31.0.0", "34.0.0", "35.0.0")
    told = [any("tested" in one for one in nova_check.remarks(conf, r)) for r in releases]
    assert told == [True, False, False, True]
