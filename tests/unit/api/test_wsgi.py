# SPDX-License-Identifier: Apache-2.0
"""vp-api as its reference says it is served: by module path, from a folder of files."""

import contextlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import requests

from nova_vp.db import schema
from nova_vp.db.queries import NewReport, Store
from nova_vp.wire import order_of
from tests.keystone import Keystone
from tests.loopback import served
from tests.unit.api import cloud
from tests.unit.api.client import configuration
from tests.unit.api.test_pipeline import CONFIGURATION
from vp_api.deploy import utc_now

OWN = """
[database]
connection = sqlite:///{folder}/nova-vp.sqlite
[bus]
transport_url = fake:/
"""


def prepare(folder, keystone_url):
    path = folder / "nova-vp.conf"
    path.write_text(CONFIGURATION.format(url=keystone_url) + OWN.format(folder=folder))
    conf = configuration(str(path))
    engine = schema.open_engine(conf)
    schema.upgrade(engine)
    engine.dispose()
    report = cloud.a_report("lab-1", vps=[cloud.a_vp()])
    text = json.dumps(report)
    Store(conf).save_reports(
        [NewReport("lab-1", order_of(report), report["mode"], utc_now(), text)]
    )


@contextlib.contextmanager
def waitress(folder):
    process = subprocess.Popen(
        [
            Path(sys.executable).with_name("waitress-serve"),
            "--listen=127.0.0.1:0",
            "vp_api.wsgi:application",
        ],
        env={**os.environ, "OS_NOVA_VP_CONFIG_DIR": str(folder)},
        stderr=subprocess.STDOUT,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.terminate()
        process.communicate(timeout=30)


def url_of(process):
    said = []
    for line in process.stdout:
        said.append(line)
        if found := re.search(r"Serving on (http://\S+)", line):
            return found[1]
    raise AssertionError("".join(said))


def test_what_the_store_holds_is_served(tmp_path):
    with served(Keystone()) as keystone_url:
        prepare(tmp_path, keystone_url)
        with waitress(tmp_path) as process:
            token = {"X-Auth-Token": f"admin.{cloud.ALPHA}"}
            answer = requests.get(f"{url_of(process)}/v1/hosts", headers=token, timeout=60)
    assert answer.status_code == 200, answer.text
    (host,) = answer.json()["hosts"]
    assert (host["name"], host["vps_count"], host["is_stale"]) == ("lab-1", 1, False)
