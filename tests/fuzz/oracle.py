# SPDX-License-Identifier: Apache-2.0
"""What is wrong after an input that was accepted or refused, whatever it was.

`Wrong` is a finding, as is every exception that nobody has announced. SQLite stores anything in
any column, so what the other databases would refuse is looked for here.
"""

import logging
import math
import re
import resource
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import date, datetime
from functools import cache
from typing import Any

from sqlalchemy import BigInteger, Boolean, Date, DateTime, LargeBinary, SmallInteger, String, Table

LEAST_DATETIME = datetime(1000, 1, 1)
"""That MariaDB has."""
MOST_TOLD = 20_000
MOST_CPU_S = 5.0
"""For one input."""
MOST_MORE_KIB = 160 << 10
"""By which the most memory of this process may grow at one input."""
_BREAKS = re.compile(r"[\x00-\x1f\x7f\x80-\x9f\ud800-\udfff]")


class Wrong(AssertionError):
    """What the product did, or left behind."""


def expect(is_so: object, what: str) -> None:
    if not is_so:
        raise Wrong(what)


@contextmanager
def bounded() -> Iterator[None]:
    """No input takes long, or much memory. The time is that of this thread alone."""
    begun_s, most_kib = time.thread_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    yield
    took_s = time.thread_time() - begun_s
    more_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - most_kib
    expect(took_s <= MOST_CPU_S, f"it takes {took_s:.1f} s")
    expect(more_kib <= MOST_MORE_KIB, f"it takes {more_kib >> 10} MiB")


class LogCheck(logging.Handler):
    """Every line of the log can be put together, and is one line."""

    def __init__(self) -> None:
        super().__init__()
        self._faults: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Raises nothing: it may be another thread that speaks."""
        try:
            text = record.getMessage()
        except Exception as exc:
            text, told = str(record.msg), repr(exc)
        else:
            told = f"a traceback: {record.exc_info[1]!r}" if record.exc_info else ""
            told = told or ("a broken line" if _BREAKS.search(text) else "")
            told = told or ("a very long line" if len(text) > MOST_TOLD else "")
        if told:
            self._faults.append(f"it logs {told}: {text[:200]!r}")

    def check(self) -> None:
        """Raises Wrong with the first since the last time."""
        faults, self._faults = self._faults, []
        expect(not faults, "".join(faults[:1]))


@contextmanager
def logs_checked() -> Iterator[LogCheck]:
    root, check = logging.getLogger(), LogCheck()
    level = root.level
    root.addHandler(check)
    root.setLevel(logging.INFO)
    try:
        yield check
    finally:
        root.removeHandler(check)
        root.setLevel(level)


@cache
def _columns(table: Table) -> tuple[tuple[str, Any, bool], ...]:
    return tuple((column.name, column.type, bool(column.nullable)) for column in table.columns)


def check_rows(table: Table, rows: Iterable[Any]) -> None:
    """That MariaDB and PostgreSQL would have stored these as they are."""
    for row in rows:
        for value, (name, kind, may_lack) in zip(row, _columns(table), strict=True):
            if value is None:
                expect(may_lack, f"{table.name}.{name} is empty")
            else:
                fault = _fault(value, kind)
                expect(fault is None, f"{table.name}.{name} = {value!r:.120}: {fault}")


def _fault(value: Any, kind: Any) -> str | None:
    if isinstance(kind, String):
        return _text_fault(value, kind.length)
    if isinstance(kind, Boolean):
        return None if value in (0, 1) else "not a boolean"
    if isinstance(kind, SmallInteger | BigInteger):
        most = 2**15 if isinstance(kind, SmallInteger) else 2**63
        is_whole = type(value) is int and -most <= value < most
        return None if is_whole else f"not an integer of {kind}"
    if isinstance(kind, DateTime):
        moment = datetime.fromisoformat(value)
        return None if moment >= LEAST_DATETIME else "before MariaDB's calendar"
    if isinstance(kind, Date):
        date.fromisoformat(value)
        return None
    return None if isinstance(kind, LargeBinary) and isinstance(value, bytes) else "unexpected"


def _text_fault(value: Any, length: int | None) -> str | None:
    if not isinstance(value, str):
        return "not a text"
    if length is not None and len(value) > length:
        return f"{len(value)} characters, the column has {length}"
    try:
        value.encode()
    except UnicodeEncodeError:
        return "not Unicode"
    return "it has a NUL" if "\0" in value else None


def is_finite(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
