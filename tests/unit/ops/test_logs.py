# SPDX-License-Identifier: Apache-2.0
"""Log lines can be grepped: servers, hosts, actions and requests stand in one form everywhere."""

import ast
import json
import logging
import re
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from nova_vp.core.types.policy import Mode
from tests.identities import call_of
from vp_agent.loop import request_log
from vp_agent.loop.command_handler import CommandHandler
from vp_agent.loop.command_server import Endpoint, MigrationEndpoint
from vp_agent.loop.control_socket import RunFolder, Server
from vp_agent.loop.migration_holds import MigrationHolds
from vp_agent.loop.state import StateFolder

ROOT = Path(__file__).parents[3]
FOLDERS = ("vp_agent", "vp_scheduler", "nova_vp", "api/vp_api")
LEVELS = {"debug", "info", "warning", "error", "exception", "log"}
FORMS = {
    "vp": {"uuid", "guest_uuid", "victim", "victim_uuid", "server"},
    "host": {"host"},
    "action": {"action_id"},
    "escalation": {"escalation_id"},
    "user": {"user_id"},
}
"""By the word in the line, names of what is told by it."""
PLACEHOLDER = re.compile(r"%[-+0-9.]*[sdrf]")
REQUEST = "req-12345678-1234-1234-1234-123456789abc"


def log_calls() -> Iterator[tuple[str, str, list[ast.expr]]]:
    """Where, format and arguments of every line that is logged."""
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text())):
                if _is_log_call(node):
                    given = node.args[1:] if node.func.attr == "log" else node.args
                    if given and isinstance(given[0], ast.Constant):
                        yield f"{path.relative_to(ROOT)}:{node.lineno}", given[0].value, given[1:]


def _is_log_call(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in LEVELS
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id == "LOG"
    )


def _name(argument: ast.expr) -> str:
    if isinstance(argument, ast.Attribute):
        return argument.attr
    return argument.id if isinstance(argument, ast.Name) else ""


def test_whatever_is_named_in_a_line_stands_behind_its_word() -> None:
    seen, wrong = 0, []
    for where, text, arguments in log_calls():
        before = PLACEHOLDER.split(text)
        for start, argument in zip(before, arguments, strict=False):
            for word, names in FORMS.items():
                if _name(argument) in names:
                    seen += 1
                    if not start.endswith(f"{word}=") and not start.endswith("victim="):
                        wrong.append(f"{where}: {text!r} tells {_name(argument)} not as {word}=")
    assert not wrong, "\n".join(wrong)
    assert seen > 20


class Commands:
    def set_mode(self, mode: Mode) -> None: ...

    def accept(self, action_id: str) -> None: ...


@pytest.fixture
def told(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, "vp_agent.loop.request_log")
    return caplog


@pytest.mark.parametrize(
    ("request_id", "request_told"),
    [(REQUEST, REQUEST), ("", "-"), (f"{REQUEST}\nvp=1", "-")],
)
def test_an_order_from_the_bus_names_its_request(told, request_id, request_told) -> None:
    Endpoint(Commands(), None).set_mode(call_of()._replace(request_id=request_id), "advise")
    assert told.messages == [f"request={request_told} order=set-mode mode=advise"]


def test_what_came_from_outside_makes_no_line_of_its_own(told) -> None:
    Endpoint(Commands(), None).accept(call_of(), "a1\n2026 ERROR vp=x" + "y" * 1000)
    [line] = told.messages
    assert line.startswith("request=- order=accept action=a1?2026?ERROR?vp=x")
    assert len(line) < 200


@pytest.mark.parametrize("field", ["escalation_id", "uuid", "detail"])
def test_a_migrations_end_makes_no_line_of_its_own(caplog, field) -> None:
    caplog.set_level(logging.INFO, "vp_agent.loop.migration_holds")
    told = {"escalation_id": "e1", "uuid": "u1", "detail": "it is over"}
    migrations = MigrationHolds(lambda id: True, lambda id, outcome: None)
    told[field] += "\n2026 ERROR \ud800"
    MigrationEndpoint(migrations).end_migration(call_of(), outcome="completed", **told)
    [line] = caplog.messages
    assert "?2026 ERROR ?" in line


def test_an_order_on_the_host_itself_is_told_and_a_question_is_not(told, tmp_path) -> None:
    control = CommandHandler(StateFolder(str(tmp_path / "state")), Mode.OBSERVE)
    folder = RunFolder(str(tmp_path))
    server = Server(folder, control, lambda: {}, lambda path: None)
    for do, value in (("status", ""), ("mode", "enforce")):
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(folder.socket))
            client.sendall(json.dumps({"do": do, "value": value}).encode() + b"\n")
            client.makefile().readline()
    server.close()
    assert told.messages == [f"request={request_log.LOCAL} order=mode value=enforce"]
