# SPDX-License-Identifier: Apache-2.0
"""Nova's API refuses mistyped `vp:` extra specs (microversion 2.86 and later) through these.

Loaded inside nova-api by the entry point group `nova.api.extra_spec_validators`. The keys and
values are those of `nova_vp.flavor_specs`; nothing is written twice.
"""

from nova import exception
from nova.api.validation.extra_specs import base

from nova_vp import flavor_specs


class UnknownKey(base.ExtraSpecValidator):
    """Matches what no other `vp:` validator did, so that the answer names the keys there are."""

    def validate(self, name: str, value: str) -> None:
        raise exception.ValidationError(f"Validation failed; {flavor_specs.unknown_key(name)}.")


def register() -> list[base.ExtraSpecValidator]:
    known = [
        base.ExtraSpecValidator(
            name=spec.key,
            description=spec.description,
            value={
                "type": str,
                "description": f"One of: {', '.join(spec.allowed)}.",
                "enum": list(spec.allowed),
            },
        )
        for spec in flavor_specs.SPECS
    ]
    unknown = UnknownKey(
        name="vp:{key}",
        description="Any other key of this namespace is refused.",
        value={"type": str},
        parameters=[{"name": "key", "pattern": ".*", "description": "An unknown key."}],
    )
    return [*known, unknown]
