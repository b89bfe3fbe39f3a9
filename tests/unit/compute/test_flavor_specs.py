# SPDX-License-Identifier: Apache-2.0
"""`vp:` extra specs: what agent and filter parse is what Nova's API lets through."""

import re
from dataclasses import fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nova import exception
from nova.api.validation.extra_specs import base, validators

from nova_vp import flavor_specs
from nova_vp.core.types.guest import Isolation
from nova_vp.core.types.service_level import ServiceClass
from nova_vp.flavor_specs import SPECS, FlavorSpec, InvalidFlavorSpec, parse

pytestmark = pytest.mark.nova

KEYS = ", ".join(flavor_specs.by_key())
CAPPED = FlavorSpec(cap_floor_ratio=0.5)
"""Of a flavor that says anything to us."""

GOOD = [
    ({}, FlavorSpec()),
    ({"hw:cpu_policy": "shared", "quota:cpu_shares": "9"}, FlavorSpec()),
    ({"vp:isolation": "none"}, CAPPED),
    ({"vp:isolation": "soft"}, replace(CAPPED, isolation=Isolation.SOFT)),
    ({"vp:isolation": "strict", "vp:manage": "no"}, FlavorSpec(Isolation.STRICT, False)),
    ({"vp:manage": "yes"}, CAPPED),
    ({"vp:manage": "no", "vp:cpu_floor": "30"}, FlavorSpec(is_managed=False)),
    ({"vp:group": "shop"}, replace(CAPPED, group="shop")),
    ({"vp:group": "Shop_2.eu-" + "x" * 54}, replace(CAPPED, group="Shop_2.eu-" + "x" * 54)),
    ({"vp:priority": "0.1"}, replace(CAPPED, priority=0.1)),
    ({"vp:priority": "2"}, replace(CAPPED, priority=2.0)),
    ({"vp:priority": "10.000"}, replace(CAPPED, priority=10.0)),
    ({"vp:cpu_floor": "1"}, FlavorSpec(cap_floor_ratio=0.01)),
    ({"vp:cpu_floor": "10"}, FlavorSpec(cap_floor_ratio=0.1)),
    ({"vp:cpu_floor": "100"}, FlavorSpec(cap_floor_ratio=1.0)),
    ({"vp:expects": "quiet"}, replace(CAPPED, expects=0)),
    ({"vp:expects": "streaming"}, replace(CAPPED, expects=8)),
    ({"vp:expects": "5"}, replace(CAPPED, expects=5)),
    (
        {"vp:class": "latency-critical"},
        replace(CAPPED, service_class=ServiceClass.LATENCY_CRITICAL),
    ),
    (
        {"vp:class": "best-effort"},
        FlavorSpec(cap_floor_ratio=0.01, service_class=ServiceClass.BEST_EFFORT),
    ),
    (
        {"vp:class": "best-effort", "vp:cpu_floor": "20", "vp:suspend": "yes"},
        FlavorSpec(cap_floor_ratio=0.2, service_class=ServiceClass.BEST_EFFORT, may_suspend=True),
    ),
    ({"vp:suspend": "no"}, CAPPED),
    (
        {"vp:class": "latency-critical", "vp:suspend": "no"},
        replace(CAPPED, service_class=ServiceClass.LATENCY_CRITICAL),
    ),
    ({"vp:latency_target_ms": "10"}, replace(CAPPED, latency_target_ms=10.0)),
    ({"vp:latency_target_ms": "0.001"}, replace(CAPPED, latency_target_ms=0.001)),
    ({"vp:latency_target_ms": "600000.000"}, replace(CAPPED, latency_target_ms=600_000.0)),
    ({"vp:latency_percentile": "50"}, replace(CAPPED, latency_percentile=50.0)),
    ({"vp:latency_percentile": "99.999"}, replace(CAPPED, latency_percentile=99.999)),
    ({"vp:max_load": "450000"}, replace(CAPPED, max_load=450_000.0)),
    ({"vp:max_load": "1000000000000"}, replace(CAPPED, max_load=1e12)),
    (
        {"vp:group": "shop", "vp:priority": "2.5", "vp:cpu_floor": "80", "vp:isolation": "soft"},
        FlavorSpec(Isolation.SOFT, True, "shop", 2.5, 0.8),
    ),
]
BAD = [
    ({"vp:isolation": "strcit"}, ["vp:isolation='strcit'", "none, soft, strict"]),
    ({"vp:isolation": "Strict"}, ["vp:isolation='Strict'", "none, soft, strict"]),
    ({"vp:manage": ""}, ["vp:manage=''", "yes, no"]),
    ({"vp:isolate": "soft"}, ["vp:isolate", KEYS]),
    ({"vp:": "soft"}, ["vp:", KEYS]),
    ({"vp:isolation": "x", "vp:manage": "y"}, ["'x'", "'y'"]),
    *(
        ({"vp:group": name}, [f"vp:group={name!r}", "a name of up to 64"])
        for name in ("", " shop", "shop\n", "-shop", "a/b", "x" * 65, "caf\u00e9")
    ),
    *(
        ({"vp:priority": weight}, [f"vp:priority={weight!r}", "from 0.1 to 10"])
        for weight in ("0", "0.099", "10.001", "11", "-1", "1e0", "nan", "", " 1", "1.", "\u0661")
    ),
    *(
        ({"vp:cpu_floor": floor}, [f"vp:cpu_floor={floor!r}", "from 1 to 100"])
        for floor in ("01", "101", "0", "050", "50%", "50.5", "", "110", "\u0665\u0660")
    ),
    *(
        ({"vp:expects": state}, [f"vp:expects={state!r}", "quiet, cache, mixed, streaming"])
        for state in ("9", "-1", "01", "", "Quiet", "unknown", "\u0661")
    ),
    *(
        ({"vp:class": name}, [f"vp:class={name!r}", "latency-critical, best-effort"])
        for name in ("", "Best-effort", "none", "best-effort\n")
    ),
    *(
        ({"vp:latency_target_ms": text}, [f"vp:latency_target_ms={text!r}", "0.001 to 600000"])
        for text in ("0", "0.000", "-1", "600000.001", "nan", "inf", "1e3", "10 ms", "", "\u0661")
    ),
    *(
        ({"vp:latency_percentile": text}, [f"vp:latency_percentile={text!r}", "50 to 99.999"])
        for text in ("49", "49.999", "100", "5", "99.9999", "p95", "", "-95")
    ),
    *(
        ({"vp:max_load": text}, [f"vp:max_load={text!r}", "0.001 to 1000000000000"])
        for text in ("0", "-1", "1000000000001", "1e6", "nan", "", "450k")
    ),
    *(({"vp:suspend": text}, [f"vp:suspend={text!r}", "yes, no"]) for text in ("", "Yes", "1")),
]

CONTRADICTING = [
    *(
        ({"vp:class": "best-effort", key: value}, key)
        for key, value in (
            ("vp:latency_target_ms", "10"),
            ("vp:latency_percentile", "99"),
            ("vp:max_load", "450000"),
        )
    ),
    ({"vp:class": "latency-critical", "vp:suspend": "yes"}, "vp:suspend"),
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


@pytest.mark.parametrize(("extra_specs", "key"), CONTRADICTING)
def test_keys_that_contradict_the_class_are_refused_naming_both(extra_specs, key):
    with pytest.raises(InvalidFlavorSpec) as refused:
        parse(extra_specs)
    told = f"contradicts vp:class={extra_specs['vp:class']}"
    assert str(refused.value).startswith(f"{key}=")
    assert told in str(refused.value)


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.key)
def test_nova_says_what_is_allowed_instead(spec):
    with pytest.raises(exception.ValidationError, match=re.escape(spec.expected)):
        validators.validate(spec.key, "mis typed")


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.key)
def test_novas_own_check_lets_no_good_value_fall(spec):
    """What its documentation is made of, enumeration or pattern, agrees with the parser."""
    validator = validators.VALIDATORS[spec.key]
    good = [specs[spec.key] for specs, _ in GOOD if spec.key in specs]
    assert good
    for value in good:
        base.ExtraSpecValidator.validate(validator, spec.key, value)
    with pytest.raises(exception.ValidationError):
        base.ExtraSpecValidator.validate(validator, spec.key, "mis typed")


def test_every_field_has_a_key():
    assert sorted([*(spec.field for spec in SPECS), "controller_keys"]) == sorted(
        field.name for field in fields(FlavorSpec)
    )


def test_nova_names_the_keys_there_are():
    with pytest.raises(exception.ValidationError, match=KEYS):
        validators.validate("vp:isolatoin", "soft")


@given(
    st.sampled_from([spec.key for spec in SPECS]),
    st.text("0123456789.,- aé\n", max_size=9) | st.text(max_size=9),
)
def test_nova_and_the_parser_agree_about_any_value(key, value):
    try:
        parse({key: value})
    except InvalidFlavorSpec:
        with pytest.raises(exception.ValidationError):
            validators.validate(key, value)
    else:
        validators.validate(key, value)


def test_a_hostile_value_does_not_flood_the_message():
    with pytest.raises(InvalidFlavorSpec) as refused:
        parse({"vp:isolation": "x" * 100000})
    assert len(str(refused.value)) < 200
