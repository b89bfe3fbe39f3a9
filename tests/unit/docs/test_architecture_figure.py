# SPDX-License-Identifier: Apache-2.0
"""The figure of the whole is the one that its code draws, and says what the code has."""

import inspect

from nova_vp import rpcapi
from tests import architecture_figure as figure
from tests.unit.docs.pages import DOC, ROOT

CLIENTS = {
    rpcapi.AgentAPI: {*figure.TO_AGENT_FROM_API, *figure.TO_AGENT_FROM_SCHEDULER},
    rpcapi.ReportAPI: set(figure.TO_SCHEDULER),
    rpcapi.DigestAPI: set(figure.TO_NOVA_SCHEDULER),
}
AS_REPORTS = (rpcapi.UsageAPI, rpcapi.EscalationAPI, rpcapi.OverlayAPI)
"""To vp-scheduler, too."""


def methods(client: type) -> set[str]:
    return {name for name, _ in inspect.getmembers(client, inspect.isfunction) if name[0] != "_"}


def test_the_picture_is_what_is_drawn() -> None:
    told = "draw it anew: python -m tests.architecture_figure"
    assert figure.PICTURE.read_text() == figure.drawn(), told
    assert f"../images/{figure.PICTURE.name}" in (DOC / "architecture/index.md").read_text()


def test_every_file_in_it_exists() -> None:
    named = [word for box in figure.BOXES for line in box.lines for word in line.split()]
    paths = [word for word in named if figure.is_code(word)]
    assert len(paths) > 15
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_every_message_of_the_bus_is_on_an_arrow() -> None:
    shown = {name for messages in figure.MESSAGES for name, _ in messages}
    there_are = set().union(*map(methods, (*CLIENTS, *AS_REPORTS)))
    assert shown == there_are


def test_each_message_is_on_the_arrow_to_who_gets_it() -> None:
    for client, messages in CLIENTS.items():
        assert methods(client) <= {name for name, _ in messages}
    for client in AS_REPORTS:
        assert methods(client) <= {name for name, _ in figure.TO_SCHEDULER}
