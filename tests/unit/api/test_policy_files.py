# SPDX-License-Identifier: Apache-2.0
"""Policy files that change under a running API: what is no policy opens nothing, fails nobody."""

import itertools
import os
import time
from pathlib import Path
from typing import Any

import pytest

from tests.unit.api import cloud
from tests.unit.api.client import Api, Persona
from vp_api import policy

SERVER = f"/v1/vps/{cloud.VICTIM}"
CLOSED = '"nova_vp:vps:show": "!"\n'
OPEN = '"nova_vp:vps:show": "role:reader"\n'
OTHER = '"nova_vp:hosts:show": "role:admin"\n'


class Files:
    """A policy file and a folder of more. Each one written is newer than those before it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._times = (time.time() + 60 + n for n in itertools.count())
        (folder / "policy.d").mkdir()
        self.write("policy.yaml", OTHER)
        (folder / "vp-api.conf").write_text(
            f"[oslo_policy]\npolicy_file = {folder}/policy.yaml\npolicy_dirs = {folder}/policy.d\n"
        )

    def write(self, name: str, text: str) -> None:
        path, at = self._folder / name, next(self._times)
        path.write_text(text)
        os.utime(path, (at, at))

    def api(self) -> Api:
        return Api(files=[str(self._folder / "vp-api.conf")])


@pytest.fixture
def files(tmp_path: Path, monkeypatch: Any) -> Files:
    monkeypatch.setattr(policy, "LOOK_EVERY_S", 0)
    return Files(tmp_path)


def status(api: Api) -> int:
    found: int = api.ask(Persona("reader"), SERVER).status
    return found


@pytest.mark.parametrize("name", ["policy.yaml", "policy.d/20-more.yaml"])
def test_what_is_written_is_taken_over(files: Files, name: str) -> None:
    api = files.api()
    assert status(api) == 200
    files.write(name, CLOSED)
    assert status(api) == 404
    files.write(name, "# nothing\n")
    assert status(api) == 200


@pytest.mark.parametrize("where", ["policy.yaml", "policy.d/20-more.yaml"])
@pytest.mark.parametrize("broken", ["policy.yaml", "policy.d/10-first.yaml", "policy.d/30-z.yaml"])
@pytest.mark.parametrize("text", ['"nova_vp:vps:show": "', "- a list\n", "\0"])
def test_what_is_no_policy_leaves_the_former_rules_in_force(
    files: Files, where: str, broken: str, text: str, caplog: Any
) -> None:
    files.write(where, CLOSED)
    api = files.api()
    files.write(broken, text)
    assert [status(api) for _ in range(3)] == [404, 404, 404]
    told = [one.getMessage() for one in caplog.records if "former rules hold" in one.getMessage()]
    assert len(told) == 1
    files.write(broken, "# mended\n")
    files.write(where, OPEN)
    assert status(api) == 200


def test_an_api_does_not_start_with_what_is_no_policy(files: Files) -> None:
    files.write("policy.yaml", '"nova_vp:vps:show": "')
    with pytest.raises(ValueError, match="quoted scalar"):
        files.api()
