# SPDX-License-Identifier: Apache-2.0
"""A process with the entry module of Nova's scheduler, its workers, and the real bus.

The module decides between threads and monkey-patched eventlet, release by release, and workers are
forked as Nova has it done. No fixture of the contract tests here: they import more than Nova's
processes have.
"""

import os
import signal
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
from oslo_config import cfg

from nova_vp import conf as options
from nova_vp import rpcapi, rpctransport
from nova_vp.signing.identity import Identity
from nova_vp.signing.keyring import ToldKeys
from nova_vp.signing.senders import Process, Sender
from tests.connections import end_connections
from tests.identities import write_keys
from tests.messages import digest_text
from tests.rabbitmq import RabbitMQ
from tests.waiting import wait_until

pytestmark = [
    pytest.mark.nova,
    # oslo.messaging leaves its sockets to the garbage collector.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

ROOT = Path(__file__).parents[3]
SCHEDULER = """
import os, pathlib, sys, threading, time, warnings
warnings.simplefilter("ignore")
import nova.cmd.scheduler
import nova.conf
import nova.service
nova.conf.CONF([], default_config_files=[])
from oslo_service import service
from vp_scheduler.placement import process_state
from vp_scheduler.filters import VPIsolationFilter
from vp_scheduler.weighers import VPInterferenceWeigher
url, keys, heard = sys.argv[1:]
plugins = VPIsolationFilter(), VPInterferenceWeigher()
nova.conf.CONF.set_override("transport_url", url, group="bus")
nova.conf.CONF.set_override("keys_directory", keys, group="bus")
assert threading.active_count() == 1, threading.enumerate()
parent = os.getpid()


class Worker(service.Service):
    def start(self):
        assert os.getpid() != parent
        assert process_state._scorer, "it waits for a request"
        while not process_state.scorer().view.get("vp1"):
            time.sleep(0.05)
        (pathlib.Path(heard) / str(os.getpid())).touch()


nova.service.serve(Worker(), workers=2)
assert process_state._scorer is None, "the parent listens"
nova.service.wait()
"""
WORKERS = 2


@pytest.fixture
def rabbitmq(tmp_path: Path) -> Iterator[RabbitMQ]:
    broker = RabbitMQ(tmp_path)
    try:
        broker.start()
        yield broker
        end_connections()
    finally:
        broker.close()


def test_each_forked_scheduler_worker_listens_and_their_parent_does_not(
    rabbitmq: RabbitMQ, tmp_path: Path
) -> None:
    digests = rpcapi.DigestAPI(a_bus(rabbitmq.url, tmp_path / "keys"))
    heard = tmp_path / "heard"
    heard.mkdir()
    said = tmp_path / "scheduler.log"
    with said.open("w") as log:
        scheduler = subprocess.Popen(
            [sys.executable, "-c", SCHEDULER, rabbitmq.url, str(tmp_path / "keys"), str(heard)],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=log,
            stderr=log,
            start_new_session=True,
        )

        def all_have_heard() -> bool:
            digests.digest(digest_text("vp1"))
            assert scheduler.poll() is None, said.read_text()
            return len([*heard.iterdir()]) == WORKERS

        try:
            wait_until(all_have_heard, "both workers to have heard of vp1", deadline_s=90)
        finally:
            os.killpg(scheduler.pid, signal.SIGKILL)
            scheduler.wait()
    assert "Traceback" not in said.read_text()


def a_bus(url: str, keys: Path) -> rpctransport.Bus:
    """Of vp1, whose key nova-scheduler trusts by file."""
    sender = Sender(Process.AGENT, "vp1")
    write_keys(keys, [sender])
    conf = cfg.ConfigOpts()
    options.register_all(conf)
    conf([], default_config_files=[])
    conf.set_override("transport_url", url, group="bus")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        conf.set_override("keys_directory", str(keys), group="bus")
        return rpctransport.Bus(Identity(conf, Process.AGENT, ToldKeys, "vp1"))
