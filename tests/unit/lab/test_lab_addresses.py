# SPDX-License-Identifier: Apache-2.0
"""A mistyped service or host: the answer names those there are."""

import pytest

from testbed.lab import settings, up
from testbed.lab.errors import LabError
from testbed.lab.processes import Address


@pytest.fixture
def lab(tmp_path, monkeypatch):
    monkeypatch.setattr(settings, "RUN", tmp_path)
    for path in ("controller/nova-api", "vp1/vp-agent", "vp2/vp-agent"):
        where, name = path.split("/")
        services = tmp_path / where / "supervise" / "services"
        services.mkdir(parents=True)
        (services / f"{name}.json").touch()


@pytest.mark.usefixtures("lab")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("frob", "no service frob; controller has: nova-api"),
        (
            "vp-agent",
            "no service vp-agent; controller has: nova-api; elsewhere: vp-agent@vp1, vp-agent@vp2",
        ),
        ("nova-api@vp1", "nova-api@vp1; vp1 has: vp-agent; elsewhere: nova-api"),
        ("vp-agent@vp9", "no service vp-agent@vp9: no host vp9; `lab status` lists all there are"),
    ],
)
def test_an_unknown_service(text, expected):
    with pytest.raises(LabError) as refused:
        Address.parse(text)
    assert str(refused.value).endswith(expected)


@pytest.mark.usefixtures("lab")
def test_a_known_service():
    assert Address.parse("vp-agent@vp2") == Address("vp-agent", "vp2")


def test_an_unknown_host(tmp_path, monkeypatch):
    monkeypatch.setattr(up, "HOSTS_FILE", tmp_path / "hosts.json")
    with pytest.raises(LabError, match="no host vp9; there are: none"):
        up.require_host("vp9")
    (tmp_path / "hosts.json").write_text('[{"name": "vp1", "cells": "0/1"}]')
    with pytest.raises(LabError, match="no host vp9; there are: vp1"):
        up.require_host("vp9")
    up.require_host("vp1")
