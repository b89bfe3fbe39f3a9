# SPDX-License-Identifier: Apache-2.0
"""Nova's API refuses mistyped `vp:` extra specs (microversion 2.86 and later) through these.

Loaded inside nova-api by the entry point group `nova.api.extra_spec_validators`. The keys and
values are those of `nova_vp.flavor_specs`, which judges them too; nothing is written twice.
"""

from typing import Any

from nova import exception
from nova.api.validation.extra_specs import base

from nova_vp import flavor_specs
from nova_vp.core.types.declaration import FlavorKey


class Validator(base.ExtraSpecValidator):  # type: ignore[misc]
    """Judges by our parser: patterns alone cannot tell that percentages add up to 100, and Nova
    would answer with the pattern instead of what to write."""

    def validate(self, name: str, value: str) -> None:
        fault = flavor_specs.fault(name, value)
        if fault is not None:
            raise exception.ValidationError(f"Validation failed; {fault}.")


def register() -> list[base.ExtraSpecValidator]:
    known = [
        Validator(name=spec.key, description=spec.description, value=_value(spec))
        for spec in flavor_specs.by_key().values()
    ]
    unknown = Validator(
        name="vp:{key}",
        description="Any other key of this namespace is refused.",
        value={"type": str},
        parameters=[{"name": "key", "pattern": ".*", "description": "An unknown key."}],
    )
    return [*known, unknown]


def _value(spec: FlavorKey[Any]) -> dict[str, object]:
    about = {"type": str, "description": f"{spec.expected[0].upper()}{spec.expected[1:]}."}
    return about | ({"enum": list(spec.allowed)} if spec.allowed else {"pattern": spec.pattern})
