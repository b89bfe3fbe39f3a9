# SPDX-License-Identifier: Apache-2.0
"""The oracle of isolation finds a leak wherever one is planted, and nothing in a clean answer."""

import base64
import json
from urllib.parse import quote

import pytest

from tests.unit.api.oracle import Leak, find_leaks

NAME = "neighbour-Db-7"
SERVER_ID = "0fa1b2c3-d4e5-4f60-8a7b-9c8d7e6f5a4b"
HOST = "compute-17.example"
WORDS = (NAME, SERVER_ID, HOST)
CLEAN = {
    "vps": [{"server_id": "11111111-1111-4111-8111-111111111111", "name": "web", "state": 7}],
    "links": [{"rel": "next", "href": "/v1/vps?limit=1&marker=WyJ3ZWIiXQ"}],
}
HEADERS = {"Content-Type": "application/json", "X-OpenStack-Request-Id": "req-5", "Allow": "GET"}


def base64_of(text, before=0):
    return base64.urlsafe_b64encode(b"x" * before + text.encode()).decode().rstrip("=")


def escaped(text):
    return "".join(f"\\u{ord(letter):04x}" for letter in text)


def percent(text):
    return "".join(f"%{ord(letter):02X}" for letter in text)


def error(detail):
    fault = {"status": 404, "code": "vp_not_found", "title": "No such server", "detail": detail}
    return {"errors": [{**fault, "request_id": "req-5"}]}


VALUES = {
    "a value of the top": {"name": NAME},
    "a nested value": {**CLEAN, "more": [{"of": [[], {"it": [1, {"name": NAME}]}]}]},
    "a key": {"vps": [{"by_server": {NAME: 1}}]},
    "within a longer value": {"vps": [{"name": f"web, hurt by {NAME}."}]},
    "within a longer key": {"vps": {f"x_{NAME}_y": 1}},
    "an error's detail": error(f"It is on the host of {NAME}."),
    "upper case": {"name": NAME.upper()},
    "lower case": {"name": NAME.lower()},
    "percent signs": {"links": {"next": f"/v1/vps?marker={percent(NAME)}"}},
    "percent signs twice": {"links": {"next": f"/v1/vps?marker={quote(percent(NAME))}"}},
    "JSON within JSON": {"choice": json.dumps({"mover": escaped(NAME)})},
    "HTML": {"detail": NAME.replace("-", "&#45;")},
    "base64": {"marker": base64_of(NAME)},
    "base64 of JSON": {"links": {"next": f"/v1/vps?marker={base64_of(json.dumps(['x', NAME]))}"}},
    "base64 in base64": {"marker": base64_of(base64_of(NAME))},
    "base64 within a longer word": {"marker": "page" + "q" + base64_of(NAME, before=1)},
    "base64 of upper case": {"marker": base64_of(NAME.upper())},
}


@pytest.mark.parametrize("where", VALUES)
def test_a_leak_in_the_body_is_found(where):
    body = json.dumps(VALUES[where])
    assert find_leaks(body, HEADERS.items(), WORDS) == [Leak(NAME, "body")]


@pytest.mark.parametrize("before", range(6))
def test_it_does_not_matter_where_base64_begins(before):
    for encoded in (base64_of(NAME, before), "q" * before + base64_of(NAME)):
        assert find_leaks(encoded, (), WORDS) == [Leak(NAME, "body")]


def test_a_leak_in_escapes_of_json_is_found():
    body = f'{{"vps": [{{"name": "{escaped(NAME)}"}}]}}'
    assert NAME in json.loads(body)["vps"][0]["name"]
    assert find_leaks(body, (), WORDS) == [Leak(NAME, "body")]


def test_a_leak_in_what_is_not_json_is_found():
    assert find_leaks(f"<p>{HOST} is down", (), WORDS) == [Leak(HOST, "body")]


def test_a_uuid_is_found_without_its_dashes():
    for told in (SERVER_ID, SERVER_ID.upper(), SERVER_ID.replace("-", ""), f"vm_{SERVER_ID}.img"):
        assert find_leaks(json.dumps([told]), (), WORDS) == [Leak(SERVER_ID, "body")]


@pytest.mark.parametrize(
    ("header", "value"),
    [
        ("Link", f'</v1/vps?marker={base64_of(HOST)}>; rel="next"'),
        ("Location", f"/v1/hosts/{percent(HOST)}/history"),
        ("Retry-After", f"30; {HOST}"),
        ("WWW-Authenticate", f"Keystone uri='http://{HOST.upper()}:5000'"),
        ("Set-Cookie", f"at={base64_of(HOST, before=2)}"),
    ],
)
def test_a_leak_in_a_header_is_found(header, value):
    headers = {**HEADERS, header: value}
    assert find_leaks(json.dumps(CLEAN), headers.items(), WORDS) == [Leak(HOST, header)]


def test_a_leak_in_the_name_of_a_header_is_found():
    headers = {**HEADERS, f"X-{NAME}": "1"}
    assert find_leaks("{}", headers.items(), WORDS) == [Leak(NAME, f"X-{NAME}")]


def test_all_that_leaks_is_named():
    headers = {"Location": f"/v1/hosts/{HOST}"}
    found = find_leaks(json.dumps({NAME: SERVER_ID}), headers.items(), WORDS)
    assert found == [Leak(NAME, "body"), Leak(SERVER_ID, "body"), Leak(HOST, "Location")]


def test_a_clean_answer_raises_nothing():
    for clean in (CLEAN, error("Ask for one of your own servers."), [], "", "neighbour"):
        assert find_leaks(json.dumps(clean), HEADERS.items(), WORDS) == []


@pytest.mark.parametrize("asked", [f"/v1/vps/{SERVER_ID}", f"/v1/vps/{percent(SERVER_ID)}"])
def test_what_was_asked_for_may_come_back_and_nothing_else(asked):
    body = json.dumps(error(f"No server {SERVER_ID} of yours."))
    assert find_leaks(body, (), WORDS, asked) == []
    body = json.dumps(error(f"Server {SERVER_ID} is on {HOST}."))
    assert find_leaks(body, (), WORDS, asked) == [Leak(HOST, "body")]
