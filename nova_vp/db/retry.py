# SPDX-License-Identifier: Apache-2.0
"""What is done again when another process was at the same rows: a whole transaction, never a part.

oslo.db's decorator, with the type that it lacks; here and nowhere else, so that all wait alike.
"""

from collections.abc import Callable
from typing import ParamSpec, TypeVar, cast

from oslo_db import api
from oslo_db import exception as db_exception

MOST_RETRIES = 5

_P = ParamSpec("_P")
_R = TypeVar("_R")


def after_deadlock(transaction: Callable[_P, _R]) -> Callable[_P, _R]:
    """The two waited for each other's rows, and the database has ended this one."""
    again = api.wrap_db_retry(max_retries=MOST_RETRIES, retry_on_deadlock=True)
    return cast(Callable[_P, _R], again(transaction))


def after_conflict(transaction: Callable[_P, _R]) -> Callable[_P, _R]:
    """That, or the other has inserted the same row first."""
    again = api.wrap_db_retry(
        max_retries=MOST_RETRIES,
        retry_on_deadlock=True,
        exception_checker=lambda exc: isinstance(exc, db_exception.DBDuplicateEntry),
    )
    return cast(Callable[_P, _R], again(transaction))
