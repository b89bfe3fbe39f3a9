# SPDX-License-Identifier: Apache-2.0
"""Controllers of other packages that are broken are left out, and keep no other from working."""

import enum
import math
from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest
from oslo_config import cfg

from nova_vp import controllers, flavor_specs
from nova_vp.conf import policy as policy_conf
from nova_vp.core.controllers.base import Answer, Controller
from nova_vp.core.types.declaration import Figure, FlavorKey, option
from nova_vp.core.types.reason import Reason


def a_controller(**about):
    def run(self, view, state, settings):
        return Answer(state)

    return type("Odd", (Controller,), {"name": "odd", "summary": "is odd", "run": run, **about})


@pytest.fixture
def install(monkeypatch):
    """These beside those of the repository."""
    real = controllers.ExtensionManager

    def installing(*kinds, names=None):
        names = names or ["odd"] * len(kinds)
        odd = [
            SimpleNamespace(name=n, plugin=k, entry_point=SimpleNamespace(name=n, value="odd:Odd"))
            for n, k in zip(names, kinds, strict=True)
        ]
        monkeypatch.setattr(controllers, "ExtensionManager", lambda *a, **k: [*real(*a, **k), *odd])
        for one in (controllers.installed, controllers.reasons, flavor_specs.by_key):
            one.cache_clear()

    yield installing
    monkeypatch.undo()
    for one in (controllers.installed, controllers.reasons, flavor_specs.by_key):
        one.cache_clear()


def settings_with(default, kind=object):
    return dataclass(frozen=True)(type("S", (), {"__annotations__": {"odd": kind}, "odd": default}))


class Color(enum.Enum):
    RED = "red"


class Number(enum.Enum):
    ONE = 1


def factory():
    return field(default_factory=tuple, metadata=option(1, "x").metadata)


@pytest.mark.parametrize(
    "default",
    [
        option((), "a tuple"),
        option(None, "nothing"),
        option(Color.RED, "an enum without choices"),
        option(Number.ONE, "an enum of numbers", choices={Number.ONE: "one"}),
        option(5, "out of its bounds", minimum=10),
        option(math.nan, "no number"),
        option("text", "with a bound", minimum=1),
        option(True, "with a bound", minimum=1),
        option(1, "with a check of a text", check=str),
        option(1, "wrong bound", minimum="a"),
        option(1, None),
        7,
        factory(),
    ],
    ids=[
        "tuple",
        "none",
        "enum-no-choices",
        "enum-int",
        "out-of-bounds",
        "nan",
        "str-min",
        "bool-min",
        "int-check",
        "bad-bound",
        "no-description",
        "no-option",
        "factory",
    ],
)
def test_options_that_cannot_be_made_leave_only_their_controller_out(install, default):
    own = controllers.installed().keys()
    install(a_controller(settings=settings_with(default)))
    assert controllers.installed().keys() == own
    conf = cfg.ConfigOpts()
    policy_conf.register_opts(conf)
    conf([])
    policy_conf.policy_from(conf)


def test_no_summary(install):
    kind = a_controller()
    del kind.summary
    install(kind)
    assert "odd" not in controllers.installed()
    policy_conf.register_opts(cfg.ConfigOpts())


def test_no_run(install):
    install(type("Odd", (Controller,), {"name": "odd", "summary": "x"}))
    assert "odd" not in controllers.installed()


@pytest.mark.needs_controllers("vp")
def test_the_name_of_another_controller(install):
    install(a_controller(name="vp"), names=["vp"])
    assert type(controllers.installed()["vp"]).__name__ != "Odd"


@pytest.mark.parametrize("name", ["a+b", "a,b", "", " x", "a.b", "A B", "x]", "é"])
def test_a_name_that_no_option_or_policy_can_say(install, name):
    install(a_controller(name=name), names=[name])
    assert name not in controllers.installed()


def key(name, **about):
    return FlavorKey(
        **{
            "key": name,
            "description": "d",
            "expected": "e",
            "read": str,
            "default": "",
            "allowed": ("yes",),
            **about,
        }
    )


@pytest.mark.parametrize("name", ["vp:isolation", "vp:manage"])
def test_a_key_of_nova_vp_itself_stays_its_own(install, name):
    own = flavor_specs.by_key()[name]
    install(a_controller(flavor_keys=(key(name),)))
    assert flavor_specs.by_key()[name] is own


def test_the_same_key_twice(install):
    install(a_controller(flavor_keys=(key("vp:odd"), key("vp:odd"))))
    assert "odd" not in controllers.installed()


def a_reason(code="odd-reason", rank=400, **about):
    return Reason(code, rank, **{"label": "x", "own_label": "y", **about})


@pytest.mark.parametrize("names", [("odd", "odd"), ("Odd",), ("odd-ratio",), ("",)])
def test_figures_that_cannot_be_told(install, names):
    figures = tuple(Figure(name=name, label="an odd number") for name in names)
    install(a_controller(figures=figures))
    assert "odd" not in controllers.installed()


@pytest.mark.needs_controllers("vp")
def test_a_reason_of_another_controller_puts_out_who_takes_it(install):
    code = controllers.installed()["vp"].reasons[0].code
    install(a_controller(name="a", reasons=(a_reason(code),)), names=["a"])
    assert "a" not in controllers.installed()
    assert "vp" in controllers.installed()


def test_the_same_reason_twice(install):
    install(a_controller(reasons=(a_reason(), a_reason())))
    assert "odd" not in controllers.installed()


@pytest.mark.parametrize(
    "about", [{"rank": -1}, {"rank": math.nan}, {"rank": None}, {"is_revert": True}]
)
def test_a_reason_above_the_operator(install, about):
    install(a_controller(reasons=(a_reason(**about),)))
    assert "odd" not in controllers.installed()


def _raise(text):
    raise KeyError(text)


def test_a_parser_that_fails_otherwise(install):
    install(a_controller(flavor_keys=(key("vp:odd", read=_raise),)))
    assert flavor_specs.fault("vp:odd", "yes") == "vp:odd='yes' is not allowed: use e"


def test_a_pattern_that_is_none(install):
    install(a_controller(flavor_keys=(key("vp:odd", allowed=(), pattern="("),)))
    assert "vp:odd is not an extra spec of nova-vp" in (flavor_specs.fault("vp:odd", "yes") or "")
    assert "odd" not in controllers.installed()


@pytest.mark.parametrize(
    ("text", "names"),
    [("", []), ("vp,vp", ["vp"]), ("vp,,", ["vp"]), ("merlin, vp", ["merlin", "vp"])],
)
@pytest.mark.needs_controllers("merlin", "vp")
def test_a_list_of_controllers_is_read_with_each_once(tmp_path, text, names):
    assert [one.controller.name for one in read(tmp_path, text).controllers] == names


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("nope", "'nope' is not an installed controller: use .*, or install its package"),
        ("VP", "'VP' is not an installed controller"),
        ("rearrange", "its name is rebalance"),
    ],
)
def test_a_name_that_is_not_installed_is_refused_with_what_to_do(tmp_path, text, told):
    with pytest.raises(cfg.ConfigFileValueError, match=told):
        read(tmp_path, text)


def read(folder, text):
    file = folder / "c.conf"
    file.write_text(f"[policy]\ncontrollers = {text}\n")
    conf = cfg.ConfigOpts()
    policy_conf.register_opts(conf)
    conf([], default_config_files=[str(file)])
    return policy_conf.policy_from(conf)
