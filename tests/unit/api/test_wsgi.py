# SPDX-License-Identifier: Apache-2.0
"""vp-api as its reference says it is served: by module path, from a folder of files."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import requests

from nova_vp.db import schema
from nova_vp.db.report_store import NewReport, ReportStore
from nova_vp.wire import version_of
from tests.identities import keys_directory
from tests.keystone import Keystone
from tests.loopback import served
from tests.unit.api import cloud
from tests.unit.api.client import configuration
from tests.unit.api.test_pipeline import CONFIGURATION
from vp_api.deploy import utc_now

DEADLINE_S = 60
TOKEN = {"X-Auth-Token": f"admin.{cloud.ALPHA}"}
OWN = """
[database]
connection = sqlite:///{folder}/nova-vp.sqlite
[bus]
transport_url = fake:/
keys_directory = {keys}
"""

UNIT = Path(__file__).parents[3] / "etc/nova-vp/systemd/vp-api.service"


class Slow(Keystone):
    """Knows a token once it is told to."""

    def __init__(self):
        super().__init__()
        self.asked, self.shall_know = threading.Event(), threading.Event()

    def _validate(self, request):
        if request.headers["X-Subject-Token"].startswith("admin."):
            self.asked.set()
            assert self.shall_know.wait(DEADLINE_S)
        return super()._validate(request)


def prepare(folder, keystone_url):
    path = folder / "nova-vp.conf"
    path.write_text(
        CONFIGURATION.format(url=keystone_url) + OWN.format(folder=folder, keys=keys_directory())
    )
    conf = configuration(str(path))
    engine = schema.open_engine(conf)
    schema.upgrade(engine)
    engine.dispose()
    report = cloud.a_report("lab-1", vps=[cloud.a_vp()])
    text = json.dumps(report)
    ReportStore(conf).save_reports(
        [NewReport("lab-1", version_of(report), report["mode"], utc_now(), text)]
    )


@contextlib.contextmanager
def waitress(folder):
    process = subprocess.Popen(
        [
            # A shell's background job ignores it, and so would all that the job starts.
            *("env", "--default-signal=INT"),
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
            url = f"{url_of(process)}/v1/hosts"
            answer = requests.get(url, headers=TOKEN, timeout=DEADLINE_S)
    assert answer.status_code == 200, answer.text
    (host,) = answer.json()["hosts"]
    assert (host["name"], host["vps_count"], host["is_stale"]) == ("lab-1", 1, False)


def test_a_stop_lets_whoever_asks_have_the_answer(tmp_path):
    """By the signal that our unit has systemd send: waitress knows of no other."""
    (name,) = re.findall(r"^KillSignal=(\w+)$", UNIT.read_text(), re.M) or ["SIGTERM"]
    keystone = Slow()
    with served(keystone) as keystone_url:
        prepare(tmp_path, keystone_url)
        with waitress(tmp_path) as process, ThreadPoolExecutor(1) as pool:
            url = f"{url_of(process)}/v1/hosts"
            asking = pool.submit(requests.get, url, headers=TOKEN, timeout=DEADLINE_S)
            assert keystone.asked.wait(DEADLINE_S)
            process.send_signal(signal.Signals[name])
            keystone.shall_know.set()
            assert asking.result().status_code == 200
            assert process.wait(DEADLINE_S) == 0


def test_a_folder_without_a_file_is_told(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", "import vp_api.wsgi"],
        env={**os.environ, "OS_NOVA_VP_CONFIG_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
    )
    assert f"no nova-vp.conf or vp-api.conf in {tmp_path}" in done.stdout + done.stderr
