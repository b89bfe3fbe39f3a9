# SPDX-License-Identifier: Apache-2.0
"""Finds words that a caller must not learn in an answer, wherever they stand and however encoded.

Looked through are the body (keys, values and text that is not JSON) and the names and values of all
headers. A word is found within a longer word, in any case, and behind up to `DEPTH` encodings of
JSON, HTML, percent signs or base64, mixed as they come.
"""

import base64
import html
import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any, NamedTuple
from urllib.parse import unquote_plus

DEPTH = 3
# JSON within JSON doubles the backslashes.
_JSON_ESCAPE = re.compile(r"\\+u([0-9a-fA-F]{4})")
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{6,}")
_URL_SAFE = str.maketrans("-_", "+/")


class Leak(NamedTuple):
    word: str
    where: str
    """`body`, or the header's name."""


def leaks_of(answer: Any, words: Iterable[str], asked: str = "") -> list[Leak]:
    """`answer` has a text and headers. What stands in `asked` the caller knew: it may come back."""
    return find_leaks(answer.text, answer.headers.items(), words, asked)


def find_leaks(
    body: str, headers: Iterable[tuple[str, str]], words: Iterable[str], asked: str = ""
) -> list[Leak]:
    known = readings(asked)
    unknown = [word for word in words if not _stands_in(word, known)]
    parts = {"body": body, **{name: f"{name}: {value}" for name, value in headers}}
    return [
        Leak(word, where)
        for where, text in parts.items()
        for word in unknown
        if _stands_in(word, readings(text))
    ]


@lru_cache(maxsize=256)
def readings(text: str) -> str:
    """The text and all that it says once its encodings are undone, in lower case."""
    found, newest = {text}, {text}
    for _ in range(DEPTH):
        newest = {plain for one in newest for plain in _undone(one) if plain} - found
        found |= newest
    return "\n".join(found).casefold()


def _undone(text: str) -> Iterator[str]:
    yield unquote_plus(text)
    yield html.unescape(text)
    yield _JSON_ESCAPE.sub(lambda found: chr(int(found[1], 16)), text).replace("\\/", "/")
    # Where the encoded part of a longer word begins nobody knows: one of four places is right.
    runs = [found.translate(_URL_SAFE) for found in _BASE64.findall(text)]
    for skipped in range(4):
        yield "\n".join(_from_base64(run[skipped:]) for run in runs)


def _from_base64(run: str) -> str:
    # One letter left over says nothing.
    whole = run[:-1] if len(run) % 4 == 1 else run
    return base64.b64decode(whole + "=" * (-len(whole) % 4)).decode("latin-1")


def _stands_in(word: str, text: str) -> bool:
    plain = word.casefold()
    return plain in text or (_is_uuid(plain) and plain.replace("-", "") in text)


def _is_uuid(word: str) -> bool:
    return len(word) == 36 and word.count("-") == 4
