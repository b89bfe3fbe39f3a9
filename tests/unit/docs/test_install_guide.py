# SPDX-License-Identifier: Apache-2.0
"""What the guide shows of files that change; `make install-test` types all of it."""

import json

from tests.install.guide import sections
from tests.install.machine import ROOT


def test_the_broker_has_the_policies_that_the_guide_lists():
    told = json.loads((ROOT / "etc/nova-vp/rabbitmq-policies.json").read_text())
    names = sorted(policy["name"] for policy in told["parameters"])
    assert sections()["Message bus"].steps[-1].expected.split() == names
