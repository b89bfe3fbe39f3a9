# SPDX-License-Identifier: Apache-2.0
"""Seeded chance, and what it does to good input: values bent in their structure, texts and bytes
torn. The same seed and number always make the same; nothing here knows what the input is for.
"""

import json
import random
from collections.abc import Sequence
from typing import Any, TypeVar

Json = Any
T = TypeVar("T")

HOSTS = ("vp1", "vp2", "vp3", "vp4")
"""Some of them send good messages as well."""
UUIDS = tuple(f"{n:08x}-0000-4000-8000-{n:012x}" for n in range(1, 9))
NAMES = (*HOSTS, *UUIDS, *(u.upper() for u in UUIDS[:2]), "bystander", "VP1", "vp1 ", "vp1\n", "")
ODD_TEXTS = (
    *("", "\0", "a\0b", "\ud800", "\udfff\ud800", "é", "\U0001f4a9", "\n", "a\r\nb", "\x1b[31m"),
    *("nan", "inf", "-1", "1e999", "null", "0x10", "٣", "1_000", " 1", "../../etc/passwd", "%s%n"),
    *(
        "a" * 64,
        "a" * 65,
        "a" * 255,
        "a" * 256,
        "a" * 1024,
        "a" * 1025,
        "é" * 255,
        "\U0001f4a9" * 64,
    ),
    *("-" * 36, "0" * 32, "f" * 37, "' OR 1=1 --", "{}", "<a/>", "&amp;", "__class__", "observe"),
)
ODD_INTS = (
    *(0, 1, -1, 8, 9, 10, 63, 64, 127, 128, 255, 256, 999, 1000, 1001, 4095, 4096, 32767, 32768),
    *(2**31 - 1, 2**31, 2**32, 2**53 - 1, 2**53, 2**53 + 1, 2**62, 2**63 - 1, 2**63, 2**64),
    *(-(2**31), -(2**63) - 1, 10**18, 10**19, 10**30, 10**400, -(10**400)),
)
ODD_FLOATS = (
    *(0.0, -0.0, 1.0, 3.0, -1.0, 0.5, 1e-9, 5e-324, 1e18, 1.1e18, -1e18, 2.0**53, 1e100, 1e308),
    *(
        -1e308,
        float("nan"),
        float("inf"),
        float("-inf"),
        1.8e9,
        2.6e11,
        253402300800.0,
        -62135596801.0,
    ),
)
RAW_NUMBERS = (
    "1e999",
    "-1e999",
    "NaN",
    "Infinity",
    "-Infinity",
    "9" * 5000,
    "01",
    "1.",
    "0x1",
    "-",
)
DEEP = 100_000
"""Levels that no parser which calls itself gets down to."""
LONG = (2, 5, 17, 65, 129, 257, 1025, 4100)


class Dice(random.Random):
    def __init__(self, seed: str, number: int) -> None:
        super().__init__(f"{seed}:{number}")
        self.number = number
        """Of the payload: good ones grow with it, as sequences do."""

    def pick(self, among: Sequence[T]) -> T:
        return among[int(self.random() * len(among))]

    def is_so(self, chance: float) -> bool:
        return self.random() < chance

    def times(self) -> int:
        """How often a message is bent: mostly once, since the first fault hides the others."""
        roll = self.random()
        if roll < 0.12:
            return 0
        return 1 if roll < 0.6 else 2 if roll < 0.85 else self.randint(3, 7)

    def odd(self) -> Json:
        """Anything that has a form in JSON, or in Python's JSON."""
        roll = self.random()
        if roll < 0.25:
            return self.pick(ODD_TEXTS)
        if roll < 0.45:
            return self.pick(ODD_INTS)
        if roll < 0.65:
            return self.pick(ODD_FLOATS)
        if roll < 0.75:
            return self.pick(NAMES)
        return self.pick((None, True, False, [], {}, [[]], [None], {"": None}, [{}], [1, "a", {}]))

    def bent(self, value: Json, times: int | None = None) -> Json:
        """A copy with so many faults in it, each somewhere; some of them are none."""
        for _ in range(self.times() if times is None else times):
            value = self._bent(value)
        return value

    def _bent(self, value: Json) -> Json:
        if isinstance(value, dict) and value:
            return self._bent_object(value)
        if isinstance(value, list) and value:
            return self._bent_list(value)
        return self._bent_leaf(value)

    def _bent_object(self, value: dict[str, Json]) -> Json:
        keys = list(value)
        key, roll = self.pick(keys), self.random()
        new = dict(value)
        if roll < 0.78:
            new[key] = self._bent(value[key])
        elif roll < 0.84:
            del new[key]
        elif roll < 0.89:
            new[self.pick((*NAMES, *ODD_TEXTS, *keys))] = self.odd()
        elif roll < 0.92:
            new[key], new[other] = new[(other := self.pick(keys))], new[key]
        elif roll < 0.94:
            new[key + self.pick((" ", "s", "\0", "_"))] = new.pop(key)
        elif roll < 0.98:
            new[key] = self.odd()
        else:
            return self.odd()
        return new

    def _bent_list(self, value: list[Json]) -> Json:
        at, roll = int(self.random() * len(value)), self.random()
        new = list(value)
        if roll < 0.72:
            new[at] = self._bent(value[at])
        elif roll < 0.78:
            del new[at]
        elif roll < 0.84:
            new.insert(at, self._bent(value[at]))
        elif roll < 0.88:
            new.append(value[at])
        elif roll < 0.91:
            new = [value[at]] * self.pick(LONG)
        elif roll < 0.94:
            self.shuffle(new)
        elif roll < 0.97:
            new.insert(at, self.odd())
        else:
            return self.odd()
        return new

    def _bent_leaf(self, value: Json) -> Json:
        if self.random() < 0.3:
            return self.odd()
        if isinstance(value, bool):
            return not value
        if isinstance(value, int):
            whole = float(max(-(10**300), min(value, 10**300)))
            return self.pick((value + 1, value - 1, -value, value * 1000, whole, *ODD_INTS))
        if isinstance(value, float):
            return self.pick((value * 1.5, -value, value // 1, value * 1e9, *ODD_FLOATS))
        if isinstance(value, str):
            return self._bent_text(value)
        return self.odd()

    def _bent_text(self, value: str) -> str:
        roll, at = self.random(), int(self.random() * (len(value) + 1))
        if roll < 0.3:
            return self.pick(NAMES)
        if roll < 0.5:
            return self.pick(ODD_TEXTS)
        if roll < 0.65:
            return (
                value[:at] + self.pick(("\0", "\ud800", "é", "x", "0", "-", "\n", ";")) + value[at:]
            )
        if roll < 0.75:
            return value[:at]
        return self.pick((value.upper(), value * 2, value * 40, value[::-1], value + " "))

    def json_text(self, value: Json) -> str:
        """One in eight is torn as a text, too."""
        text = json.dumps(value, separators=(",", ":"))
        return text if self.random() < 0.875 else self.torn_json(text)

    def torn_json(self, text: str) -> str:
        roll, at = self.random(), int(self.random() * len(text))
        if roll < 0.2:
            return text[:at]
        if roll < 0.35:  # The last of two keys counts.
            return "{" + f'"{self.pick(("host", "v", "epoch", "id"))}":"vp2",' + text[1:]
        if roll < 0.6:
            return self._with_raw(text, at)
        if roll < 0.65:
            return text[:at] + "[" * DEEP + "]" * DEEP + text[at:]
        if roll < 0.7:
            return self.pick(("", " ", "\ufeff", "null", "[]", "{}", "{" * DEEP)) + text
        if roll < 0.75:
            return text.encode().decode("unicode_escape", "replace")
        return self.torn_text(text)

    def _with_raw(self, text: str, at: int) -> str:
        """A number in the place of one, as no encoder would write it."""
        found = next((i for i in range(at, len(text)) if text[i].isdigit()), at)
        end = found
        while end < len(text) and (text[end].isdigit() or text[end] in ".e"):
            end += 1
        return text[:found] + self.pick(RAW_NUMBERS) + text[end:]

    def torn_text(self, text: str) -> str:
        for _ in range(self.randint(1, 4)):
            at, roll = int(self.random() * (len(text) + 1)), self.random()
            if roll < 0.3:
                text = text[:at]
            elif roll < 0.6:
                text = text[:at] + self.pick(ODD_TEXTS) + text[at:]
            elif roll < 0.8:
                text = text[:at] + text[at + self.randint(1, 8) :]
            else:
                text = text[:at] + chr(self.randint(0, 0x2FF)) + text[at + 1 :]
        return text

    def torn(self, data: bytes) -> bytes:
        for _ in range(self.randint(1, 4)):
            at, roll = int(self.random() * (len(data) + 1)), self.random()
            if roll < 0.25:
                data = data[:at]
            elif roll < 0.6:
                data = data[:at] + self.randbytes(self.randint(1, 8)) + data[at + 4 :]
            elif roll < 0.75:
                data = data[:at] + bytes(self.randint(1, 64)) + data[at:]
            elif roll < 0.9:
                data = data[:at] + data[at + self.randint(1, 64) :]
            else:
                data = data + data[:at]
        return data
