# SPDX-License-Identifier: Apache-2.0
"""States of servers as an operator reads them: what their names stand for."""

from collections.abc import Mapping
from typing import Any

from django.utils.html import format_html
from django.utils.translation import gettext_lazy as _

from nova_vp.core.types.sample import FactorClass, Intensity, State
from vp_client import formatters

INTENSITIES = {
    Intensity.PUG: _("pug (MPKI below 2)"),
    Intensity.TERRIER: _("terrier (MPKI 2 to 15)"),
    Intensity.BULLDOG: _("bulldog (MPKI 15 or more)"),
}
FACTORS = {
    FactorClass.LOW: _("memory factor below 0.25"),
    FactorClass.MID: _("memory factor 0.25 to 0.6"),
    FactorClass.HIGH: _("memory factor 0.6 or more"),
}


def choices() -> dict[str, str]:
    """By number, for a filter."""
    states = map(State.from_number, range(9))
    return {str(one.number): f"{one.number} {_meaning(one)}" for one in states}


def shown(told: Mapping[str, Any] | None) -> Any:
    """Its number and name, and what they stand for."""
    text = formatters.state(told)
    if told is None:
        return text
    meaning = _meaning(State.from_number(told["number"]))
    return format_html('<abbr title="{}">{}</abbr>', meaning, text)


def _meaning(state: State) -> str:
    return f"{INTENSITIES[state.intensity]}, {FACTORS[state.factor]}"
