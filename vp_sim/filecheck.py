# SPDX-License-Identifier: Apache-2.0
"""What is wrong with a file that a person wrote, in one line: where, what, and what would do."""

from collections.abc import Mapping
from typing import Any

import jsonschema

OF_A_NAME = r"\w.+ -"
NAME = {"type": "string", "pattern": rf"^[{OF_A_NAME}]{{1,64}}\Z"}
_LONGEST_TOLD = 400
_LONGEST_VALUE = 80
_KINDS = {
    "array": "a list",
    "object": "named values in braces",
    "string": "a text in quotes",
    "number": "a number",
    "integer": "a whole number",
}
"""What JSON schema calls them, and what a person writes."""
_Validator = jsonschema.validators.extend(
    jsonschema.Draft202012Validator,
    # 2.0 is no count: what computes with it wants a whole number.
    type_checker=jsonschema.Draft202012Validator.TYPE_CHECKER.redefine(
        "integer", lambda _, value: type(value) is int
    ),
)


def fault(schema: Mapping[str, object], content: Any, none_at_all: str) -> str | None:
    """The worst of it; `none_at_all` where the content as a whole is something else."""
    error = jsonschema.exceptions.best_match(_Validator(schema).iter_errors(content))
    if error is None:
        return None
    where = "/".join(str(part) for part in error.absolute_path) or "at the top"
    return f"{where}: {_told(error, none_at_all)}"


def _told(error: jsonschema.ValidationError, none_at_all: str) -> str:
    """With what would do; what stands there is cut where it is long."""
    told: str = error.message
    if not error.absolute_path and error.validator == "type":
        told = none_at_all
    elif error.validator == "type":
        told = f"here is {error.instance!r:.{_LONGEST_VALUE}}; give {_kinds(error.validator_value)}"
    elif error.validator == "required":
        missing = next(one for one in error.validator_value if one not in error.instance)
        told = f"{missing!r} is missing; add it"
    elif error.validator in ("minItems", "minProperties"):
        told = "there is nothing in it; add an entry"
    elif error.validator == "additionalProperties":
        told += f"; use one of {', '.join(error.schema['properties'])}"
    elif error.validator == "pattern":
        given = f"{error.instance!r:.{_LONGEST_VALUE}}"
        told = f"{given}: use up to 64 letters, digits, blanks and . _ + -"
    return told if len(told) <= _LONGEST_TOLD else f"{told[:_LONGEST_TOLD]} …"


def _kinds(kinds: str | list[str]) -> str:
    return " or ".join(_KINDS[kind] for kind in ([kinds] if isinstance(kinds, str) else kinds))
