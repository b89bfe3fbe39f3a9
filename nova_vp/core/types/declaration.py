# SPDX-License-Identifier: Apache-2.0
"""What a controller declares beside its decisions: settings, flavor extra specs, figures.

Configuration options, Nova's validators and the documentation are made of these declarations;
nothing is written twice. Nothing here decides.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from nova_vp.core.types.guest import Guest

T = TypeVar("T")


def option(
    default: Any,
    description: str,
    *,
    minimum: float | None = None,
    maximum: float | None = None,
    choices: Mapping[Any, str] | None = None,
    check: Callable[[str], object] | None = None,
    formerly: str = "",
) -> Any:
    """One field of a controller's settings, a frozen dataclass of int, float, bool, str and enums
    of texts. It becomes an option of that name in the group `[controller_<name>]`.

    `choices`: what each value of an enum means. `check`: raises ValueError for a text that the
    controller cannot read, and says what it must be. `formerly`: its name in the group `[policy]`.
    """
    return field(
        default=default,
        metadata={
            "description": description,
            "minimum": minimum,
            "maximum": maximum,
            "choices": choices,
            "check": check,
            "formerly": formerly,
        },
    )


@dataclass(frozen=True, slots=True)
class Figure:
    """One number or word that a controller tells of servers, for reports, API and CLI."""

    name: str
    """Lower case with underscores; a number's ends in its unit."""
    label: str
    """For people: what it is, as a noun."""
    words: tuple[str, ...] = ()
    """Every word that it can be; empty: it is a number."""
    is_for_tenants: bool = False
    """The server's own tenant is told too, a number in whole units: it says nothing of
    neighbours."""


@dataclass(frozen=True, slots=True)
class FlavorKey(Generic[T]):
    """One flavor extra spec, and the only parser of its values."""

    key: str
    """In the namespace `vp:`."""
    description: str
    expected: str
    """What a value must be, for people who gave another one."""
    read: Callable[[str], T]
    """Raises ValueError for a value that has the form and is out of range."""
    default: T
    """Of guests whose flavor does not have it."""
    allowed: tuple[str, ...] = ()
    """Every value there is; empty: `pattern` gives their form."""
    pattern: str = ""
    cap_floor_ratio: float | None = None
    """Least share of each vCPU that a cap leaves to a server with this key, where its flavor has no
    `vp:cpu_floor`; None: that of all servers."""

    def has_form(self, text: str) -> bool:
        if self.allowed:
            return text in self.allowed
        return re.fullmatch(self.pattern, text) is not None

    def of(self, guest: Guest) -> T:
        """What the guest's flavor asks for. Only valid values ever reach a guest."""
        return self.among(guest.controller_keys)

    def among(self, keys: Iterable[tuple[str, str]]) -> T:
        """The same of a flavor's keys with their valid values."""
        for key, text in keys:
            if key == self.key:
                return self.read(text)
        return self.default
