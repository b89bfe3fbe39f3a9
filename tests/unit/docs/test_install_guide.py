# SPDX-License-Identifier: Apache-2.0
"""What the guide shows of files that change; `make install-test` types all of it."""

import json

from tests.install.guide import File, sections
from tests.install.machine import ROOT


def test_the_broker_has_the_policies_that_the_guide_lists():
    told = json.loads((ROOT / "etc/nova-vp/rabbitmq-policies.json").read_text())
    names = sorted(policy["name"] for policy in told["parameters"])
    assert sections()["Message bus"].steps[-1].expected.split() == names


def test_what_is_added_to_a_file_is_written():
    """Else what checks it later reads a file without it."""
    [file] = [one for one in sections()["nova-scheduler"].steps if isinstance(one, File)]
    assert file.path == "/etc/nova/nova.conf"
    assert "VPIsolationFilter" in file.text
