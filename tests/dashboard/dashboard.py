# SPDX-License-Identifier: Apache-2.0
"""Horizon as its users have it: a login, and the pages behind it, read by what they say."""

from collections.abc import Iterable, Mapping
from typing import Any

import requests
from lxml import html

from tests.real_keystone import PASSWORD

Values = Mapping[str, float]


class User:
    """One who is logged in. `link`: whoever gives it closes it."""

    def __init__(self, url: str, link: requests.Session) -> None:
        self._url = url
        self._link = link

    def log_in(self, name: str) -> None:
        there = f"{self._url}/auth/login/"
        form = html.fromstring(self._link.get(there, timeout=120).text).forms[0]
        fields = {**dict(form.form_values()), "username": name, "password": PASSWORD}
        answer = self._link.post(
            there,
            data={**fields, "domain": "default", "next": "/settings/"},
            headers={"Referer": there},
            timeout=120,
        )
        assert answer.ok, answer.text[:2000]
        assert "/auth/login" not in answer.url, answer.text[:2000]

    def get(self, path: str) -> "Shown":
        answer = self._link.get(f"{self._url}{path}", timeout=120)
        return Shown(answer.status_code, html.fromstring(answer.text), answer.text)

    def post(self, path: str, fields: Iterable[tuple[str, str]]) -> "Shown":
        """The form of that page, as it is sent with these fields. What is shown then."""
        [token] = set(self.get(path).tree.xpath("//input[@name='csrfmiddlewaretoken']/@value"))
        there = f"{self._url}{path}"
        answer = self._link.post(
            there,
            data=[("csrfmiddlewaretoken", token), *fields],
            headers={"Referer": there},
            timeout=120,
        )
        return Shown(answer.status_code, html.fromstring(answer.text), answer.text)


class Shown:
    def __init__(self, status: int, tree: Any, text: str) -> None:
        self.status = status
        self.tree = tree
        self.text = text

    def one(self, xpath: str) -> Any:
        [found] = self.tree.xpath(xpath)
        return found

    @property
    def problem(self) -> str | None:
        found = self.tree.xpath("//*[@id='vp-problem']")
        return words(found[0]) if found else None


def words(element: Any) -> str:
    return " ".join(element.text_content().split())


def values(element: Any) -> Values:
    """The numbers in it, by key."""
    return {one.get("data-key"): float(one.get("value")) for one in element.xpath(".//data")}
