# SPDX-License-Identifier: Apache-2.0
"""`vp:` flavor extra specs: one table of keys and allowed values, and the only parser of them.

Agent and scheduler filter parse with it, Nova's API validates with it (`nova_vp.compute`). Pure,
and as strict as the validators: an older flavor still reaches agent and filter unchecked.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from nova_vp.core.model import Isolation

NAMESPACE = "vp:"


@dataclass(frozen=True, slots=True)
class Spec:
    key: str
    description: str
    allowed: tuple[str, ...]


ISOLATION = Spec(
    key="vp:isolation",
    description=(
        "How much the server is to be kept from interference of its neighbours. `strict`: it is "
        "placed only where neither it nor another strict server is expected to be hurt; `soft`: "
        "such places are preferred; `none`: no preference."
    ),
    allowed=tuple(isolation.value for isolation in Isolation),
)
MANAGE = Spec(
    key="vp:manage",
    description=(
        "Whether nova-vp may place the server's vCPUs within the CPUs that Nova allows it. With "
        "`no` it is measured and otherwise left alone."
    ),
    allowed=("yes", "no"),
)
SPECS = (ISOLATION, MANAGE)
_BY_KEY = {spec.key: spec for spec in SPECS}


@dataclass(frozen=True, slots=True)
class FlavorSpec:
    """What a flavor asks of us."""

    isolation: Isolation = Isolation.NONE
    is_managed: bool = True


class InvalidFlavorSpec(ValueError):
    """A `vp:` key or value that does not exist. The message names it and what is allowed."""


def parse(extra_specs: Mapping[str, str]) -> FlavorSpec:
    """Raises InvalidFlavorSpec naming every fault; keys of other namespaces are not ours."""
    ours = {key: value for key, value in extra_specs.items() if key.startswith(NAMESPACE)}
    faults = [fault for key, value in sorted(ours.items()) if (fault := _fault(key, value))]
    if faults:
        raise InvalidFlavorSpec("; ".join(faults))
    return FlavorSpec(
        isolation=Isolation(ours.get(ISOLATION.key, Isolation.NONE.value)),
        is_managed=ours.get(MANAGE.key) != "no",
    )


def unknown_key(key: str) -> str:
    return f"{key[:80]} is no extra spec of nova-vp: allowed are {', '.join(_BY_KEY)}"


def _fault(key: str, value: str) -> str | None:
    spec = _BY_KEY.get(key)
    if spec is None:
        return unknown_key(key)
    if value in spec.allowed:
        return None
    return f"{key}={value[:80]!r} is not allowed: use one of {', '.join(spec.allowed)}"
