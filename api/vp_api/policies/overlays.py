# SPDX-License-Identifier: Apache-2.0
"""Who may see overlays, who changes them, and who calls them.

What puts an overlay before those of other projects is the operator's: a project decides about its
own servers alone.
"""

from oslo_policy import policy

from vp_api.policies import base

SHOW = "nova_vp:overlays:show"
SHOW_ALL = "nova_vp:overlays:show_all"
CHANGE = "nova_vp:overlays:change"
RANK = "nova_vp:overlays:rank"
CALL = "nova_vp:overlays:call"
NAME_ISLAND = "nova_vp:overlays:name_island"

_LIST, _ONE = "/v1/overlays", "/v1/overlays/{overlay_id}"
_CALLS = f"{_ONE}/calls"
# Quoted: the oldest oslo.policy that setup.cfg allows has no such class.
_READS: "list[policy.Operation]" = [
    {"method": "GET", "path": _LIST},
    {"method": "GET", "path": _ONE},
]
_CHANGES: "list[policy.Operation]" = [
    {"method": "POST", "path": _LIST},
    {"method": "PATCH", "path": _ONE},
    {"method": "DELETE", "path": _ONE},
    {"method": "POST", "path": f"{_ONE}/servers"},
    {"method": "DELETE", "path": f"{_ONE}/servers/{{server_id}}"},
]


def _rule(
    name: str, check_str: str, description: str, operations: "list[policy.Operation]"
) -> policy.RuleDefault:
    return policy.DocumentedRuleDefault(
        name=name,
        check_str=check_str,
        description=description,
        operations=operations,
        scope_types=base.SCOPES,
    )


RULES = [
    _rule(
        SHOW,
        base.PROJECT_READER_OR_OPERATOR,
        "Show an overlay and what it holds now. Checked with the project that owns it.",
        [*_READS, *_CHANGES, {"method": "POST", "path": _CALLS}],
    ),
    _rule(
        SHOW_ALL,
        base.ADMIN_OR_SERVICE,
        "Show the overlays of every project with the hosts of their servers, and why calls are "
        "refused in full. Never grant it to tenants.",
        [*_READS, *_CHANGES, {"method": "POST", "path": _CALLS}],
    ),
    _rule(
        CHANGE,
        base.PROJECT_MEMBER_OR_ADMIN,
        "Create, change and delete an overlay, and say which servers are in it. Checked with the "
        "project that owns it, to which all of its servers belong.",
        _CHANGES,
    ),
    _rule(
        RANK,
        base.ADMIN,
        "Set the priority and the arbitration class of an overlay, by which its calls come before "
        "those of other projects.",
        _CHANGES[:2],
    ),
    _rule(
        CALL,
        base.PROJECT_MEMBER_OR_ADMIN,
        "Call an overlay: tune, trigger, borrow, release. Checked with the project that owns it.",
        [{"method": "POST", "path": _CALLS}],
    ),
    _rule(
        NAME_ISLAND,
        base.ADMIN,
        "Name the island from which a call borrows. Names of islands say how a host is divided.",
        [{"method": "POST", "path": _CALLS}],
    ),
]
