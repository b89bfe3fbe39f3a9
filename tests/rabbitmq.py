# SPDX-License-Identifier: Apache-2.0
"""A private RabbitMQ for tests: own ports, own folder, gone afterwards.

It has the limits we ship, a hundred times smaller, so that a test can run into them: messages
expire after 1.8 s, and the reports' queue holds 2.6 MB.
"""

import json
import os
import signal
import socket
import subprocess
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import amqp

from tests.waiting import wait_until

POLICIES = Path(__file__).parents[1] / "etc" / "nova-vp" / "rabbitmq-policies.json"
USER, PASSWORD = "test", "secret"
START_DEADLINE_S = 60.0
SCALE = 100
SERVER = "/usr/lib/rabbitmq/bin/rabbitmq-server"
CONTROL = "/usr/lib/rabbitmq/bin/rabbitmqctl"


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def shipped_policies(scale: int) -> dict[str, Any]:
    definitions: dict[str, Any] = json.loads(POLICIES.read_text())
    for parameter in definitions["parameters"]:
        limits = parameter["value"]["definition"]
        limits.update({name: value // scale for name, value in limits.items()})
    return definitions


class RabbitMQ:
    def __init__(self, folder: Path, scale: int = SCALE) -> None:
        self._folder = folder
        self._scale = scale
        self.port = free_port()
        self._epmd_port = free_port()
        self._dist_port = free_port()
        self._processes: list[subprocess.Popen[bytes]] = []
        self._write_configuration()
        self._spawn(["epmd", "-address", "127.0.0.1"], "epmd.log")

    @property
    def url(self) -> str:
        return f"rabbit://{USER}:{PASSWORD}@127.0.0.1:{self.port}/"

    def start(self) -> None:
        self._server = self._spawn([SERVER], "server.log")
        wait_until(self._answers, f"RabbitMQ ({self._folder}/server.log)", START_DEADLINE_S)

    def stop(self) -> None:
        """Gone with everything that was not durable, as after a crash."""
        self._end(self._server)

    def close(self) -> None:
        for process in reversed(self._processes):
            self._end(process)

    @property
    def pid(self) -> int:
        """Of the process whose children do the work."""
        return self._server.pid

    def import_definitions(self, path: Path) -> None:
        """As an operator does."""
        argv = [CONTROL, "import_definitions", str(path)]
        subprocess.run(argv, env=self._environment(), check=True, capture_output=True)

    def url_of(self, user_and_password: str) -> str:
        return f"rabbit://{user_and_password}@127.0.0.1:{self.port}/"

    def bind(self, queue: str, exchange: str, key: str) -> None:
        """A queue that nobody consumes."""
        with closing(self._connect()) as connection, connection.channel() as channel:
            channel.queue_declare(queue, auto_delete=False)
            channel.queue_bind(queue, exchange, key)

    def delete(self, queue: str) -> None:
        """As an administrator does."""
        with closing(self._connect()) as connection, connection.channel() as channel:
            channel.queue_delete(queue)

    def waiting(self, queue: str) -> int:
        """Messages that nobody has taken yet."""
        with closing(self._connect()) as connection, connection.channel() as channel:
            return int(channel.queue_declare(queue, passive=True).message_count)

    def _answers(self) -> bool:
        assert self._server.poll() is None, (self._folder / "server.log").read_text()[-2000:]
        with suppress(OSError, amqp.AMQPError), closing(self._connect()):
            return True
        return False

    def _connect(self) -> amqp.Connection:
        connection = amqp.Connection(
            f"127.0.0.1:{self.port}", userid=USER, password=PASSWORD, connect_timeout=5
        )
        connection.connect()
        return connection

    def _write_configuration(self) -> None:
        definitions = shipped_policies(self._scale) | {
            "users": [{"name": USER, "password": PASSWORD, "tags": "administrator"}],
            "vhosts": [{"name": "/"}],
            "permissions": [
                {"user": USER, "vhost": "/", "configure": ".*", "write": ".*", "read": ".*"}
            ],
        }
        (self._folder / "definitions.json").write_text(json.dumps(definitions))
        (self._folder / "enabled_plugins").write_text("[].")
        (self._folder / "rabbitmq.conf").write_text(
            f"listeners.tcp.1 = 127.0.0.1:{self.port}\n"
            "loopback_users = none\n"
            f"load_definitions = {self._folder}/definitions.json\n"
            "vm_memory_high_watermark.absolute = 512MiB\n"
            "disk_free_limit.absolute = 50MB\n"
            "log.console = true\n"
            "log.file = false\n"
        )

    def _environment(self) -> dict[str, str]:
        folder = str(self._folder)
        return {
            "PATH": os.environ["PATH"],
            "HOME": folder,
            "LANG": "C.UTF-8",
            "ERL_EPMD_PORT": str(self._epmd_port),
            "RABBITMQ_NODENAME": f"test{self.port}@localhost",
            "RABBITMQ_DIST_PORT": str(self._dist_port),
            "RABBITMQ_MNESIA_BASE": f"{folder}/mnesia",
            "RABBITMQ_LOG_BASE": folder,
            "RABBITMQ_CONFIG_FILE": f"{folder}/rabbitmq.conf",
            "RABBITMQ_ENABLED_PLUGINS_FILE": f"{folder}/enabled_plugins",
            "RABBITMQ_PID_FILE": f"{folder}/pid",
            "RABBITMQ_CONF_ENV_FILE": "/dev/null",
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "+S 1:1 +sbwt none +sbwtdcpu none +sbwtdio none",
        }

    def _spawn(self, argv: list[str], log: str) -> "subprocess.Popen[bytes]":
        with (self._folder / log).open("ab") as file:
            process = subprocess.Popen(
                argv,
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                start_new_session=True,
            )
        self._processes.append(process)
        return process

    def _end(self, process: "subprocess.Popen[bytes]") -> None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
