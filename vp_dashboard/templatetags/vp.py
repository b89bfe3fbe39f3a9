# SPDX-License-Identifier: Apache-2.0
"""Values as text, in the words of the command line."""

from collections.abc import Callable
from functools import wraps
from typing import Any

from django import template
from django.utils.html import format_html

from vp_client import (
    degradation_formatters,
    escalation_formatters,
    formatters,
    host_formatters,
    overlay_formatters,
)
from vp_dashboard import evidence, keystone_names, states, texts

register = template.Library()


def _readable(function: Callable[..., str]) -> Callable[..., str]:
    @wraps(function)
    def read(value: Any) -> str:
        return texts.readable(function(value))

    return read


TEXTS: dict[str, Callable[..., str]] = {
    "vp_age": formatters.age,
    "vp_change": formatters.deed,
    "vp_changes": formatters.changes,
    "vp_attempts": escalation_formatters.attempts,
    "vp_candidates": escalation_formatters.candidates,
    "vp_choice": escalation_formatters.choice,
    "vp_cpu_use": formatters.cpu_use,
    "vp_effective_mode": formatters.effective_mode,
    "vp_figures": formatters.figures,
    "vp_holds": overlay_formatters.holds,
    "vp_kind": formatters.kind,
    "vp_last_known": formatters.last_known,
    "vp_memory": texts.memory,
    "vp_mode_levels": formatters.mode_levels,
    "vp_mode_source": formatters.mode_source,
    "vp_name": formatters.name,
    "vp_number": formatters.number,
    "vp_or_unknown": formatters.or_unknown,
    "vp_overlay_servers": overlay_formatters.servers,
    "vp_percent": formatters.percent,
    "vp_overrides": formatters.overrides,
    "vp_recorded": degradation_formatters.recorded_text,
    "vp_rejected": formatters.rejected,
    "vp_response": degradation_formatters.short_response,
    "vp_result": texts.result,
    "vp_sentence": degradation_formatters.sentence,
    "vp_server": formatters.server,
    "vp_server_or_none": formatters.server_or_none,
    "vp_span": texts.span,
    "vp_time": formatters.or_unknown,
    "vp_what_if_domains": host_formatters.what_if_domains,
    "vp_what_if_resource": host_formatters.what_if_resource,
    "vp_words": formatters.words,
    "vp_yes_no": formatters.yes_no,
}
for name, function in TEXTS.items():
    register.filter(name, _readable(function))
register.filter("vp_islands", _readable(host_formatters.islands))
register.filter("vp_text", texts.readable)
register.filter("vp_evidence", evidence.lines)
register.filter("vp_state", states.shown)


@register.filter
def vp_hours(seconds: float) -> str:
    return formatters.number(seconds / 3600)


@register.filter
def vp_share(ratio: float | None) -> str:
    """In percent, for a column that says so."""
    return "-" if ratio is None else f"{100 * ratio:.3g}"


@register.simple_tag
def vp_value(value: float | str | None, key: str, shown: str = "") -> Any:
    """A number with the value that vp-api gave it, whatever digits are shown. None, and the empty
    text that a template makes of what is not there: unknown."""
    if value is None or value == "":
        return format_html('<span data-key="{}">{}</span>', key, formatters.UNKNOWN)
    text = shown or formatters.number(float(value))
    return format_html('<data data-key="{}" value="{}">{}</data>', key, value, text)


@register.simple_tag
def vp_degradation(vp: Any) -> Any:
    """As the column of the command line has it, with the value that machines are told."""
    lost, text = degradation_formatters.value(vp), degradation_formatters.listed(vp)
    if lost is None:
        return formatters.UNKNOWN if text == "?" else text
    return vp_value(lost, "degradation", text)


@register.simple_tag
def vp_rise(interference: Any, suspect: Any) -> str:
    return formatters.rise(interference, suspect)


@register.simple_tag(takes_context=True)
def vp_project(context: Any, project_id: str) -> Any:
    """Its name, and its id where a pointer rests."""
    name = keystone_names.project(context["request"], project_id)
    return format_html('<span title="{}">{}</span>', project_id, name)


@register.inclusion_tag("vp_dashboard/_words.html")
def vp_glossary(*words: str) -> dict[str, Any]:
    """Those of the glossary that a page uses."""
    return {"words": words}
