# SPDX-License-Identifier: Apache-2.0
"""`vp:` extra specs: what agent and filter parse is what Nova's API lets through."""

import pytest
from nova import exception
from nova.api.validation.extra_specs import validators

from nova_vp.core.model import Isolation
from nova_vp.flavor_specs import SPECS, FlavorSpec, InvalidFlavorSpec, parse

GOOD = [
    ({}, FlavorSpec()),
    ({"hw:cpu_policy": "shared", "quota:cpu_shares": "9"}, FlavorSpec()),
    ({"vp:isolation": "none"}, FlavorSpec(Isolation.NONE)),
    ({"vp:isolation": "soft"}, FlavorSpec(Isolation.SOFT)),
    ({"vp:isolation": "strict", "vp:manage": "no"}, FlavorSpec(Isolation.STRICT, False)),
    ({"vp:manage": "yes"}, FlavorSpec(Isolation.NONE, True)),
]
BAD = [
    ({"vp:isolation": "strcit"}, ["vp:isolation='strcit'", "none, soft, strict"]),
    ({"vp:isolation": "Strict"}, ["vp:isolation='Strict'", "none, soft, strict"]),
    ({"vp:manage": ""}, ["vp:manage=''", "yes, no"]),
    ({"vp:isolate": "soft"}, ["vp:isolate", "vp:isolation, vp:manage"]),
    ({"vp:": "soft"}, ["vp:", "vp:isolation, vp:manage"]),
    ({"vp:isolation": "x", "vp:manage": "y"}, ["'x'", "'y'"]),
]


@pytest.fixture(scope="module", autouse=True)
def nova_validators():
    """Nova's own registry, loaded from the installed entry points as nova-api does."""
    validators.load_validators()


@pytest.mark.parametrize(("extra_specs", "expected"), GOOD)
def test_good_specs_are_parsed_and_pass_nova(extra_specs, expected):
    assert parse(extra_specs) == expected
    for key, value in extra_specs.items():
        validators.validate(key, value)


@pytest.mark.parametrize(("extra_specs", "named"), BAD)
def test_bad_specs_are_refused_by_both_naming_what_is_allowed(extra_specs, named):
    with pytest.raises(InvalidFlavorSpec) as refused:
        parse(extra_specs)
    assert all(text in str(refused.value) for text in named)
    for key, value in extra_specs.items():
        with pytest.raises(exception.ValidationError):
            validators.validate(key, value)


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.key)
def test_nova_names_the_allowed_values(spec):
    with pytest.raises(exception.ValidationError, match=", ".join(spec.allowed)):
        validators.validate(spec.key, "mistyped")


def test_nova_names_the_keys_there_are():
    with pytest.raises(exception.ValidationError, match="vp:isolation, vp:manage"):
        validators.validate("vp:isolatoin", "soft")


def test_a_hostile_value_does_not_flood_the_message():
    with pytest.raises(InvalidFlavorSpec) as refused:
        parse({"vp:isolation": "x" * 100000})
    assert len(str(refused.value)) < 200
