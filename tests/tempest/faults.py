# SPDX-License-Identifier: Apache-2.0
"""Faults of vp-api that our plugin must find: what is planted where, and which tests find it.

Each is one that a change could bring in unnoticed: a right too many, a word too much, an order that
is lost.
"""

from dataclasses import dataclass

TESTS = r"^vp_tempest_plugin\.tests\.api\."


@dataclass(frozen=True, slots=True)
class Fault:
    name: str
    """What vp-api does then."""
    file: str
    """Below `api/vp_api`."""
    text: str
    """It stands once in the file."""
    planted: str
    """What stands there instead."""
    tests: str
    """Of the plugin, below its API tests: those one of which must fail."""

    @property
    def include(self) -> str:
        return TESTS + self.tests


FAULTS = (
    Fault(
        "a server of another project is shown",
        "handlers/vps.py",
        'call.sees_all or _is_own(call, report.vp["project_id"])',
        "True",
        r"test_servers\.TestServers\.test_a_server_of_somebody_else",
    ),
    Fault(
        "hosts are shown to tenants",
        "policies/hosts.py",
        "check_str=base.ADMIN_OR_SERVICE",
        'check_str="role:reader"',
        r"test_personas\.TestPersonas\.test_what_operators_see",
    ),
    Fault(
        "a tenant is told the host of its server",
        "views/tenant.py",
        '        "name": head.name,\n        "project_id"',
        '        "name": head.name,\n        "host": head.host,\n        "project_id"',
        r"test_servers\.TestServers\.test_a_tenant_is_told_of_it",
    ),
    Fault(
        "operations are known at each microversion",
        "dispatch.py",
        "if operation.since > version:",
        "if False:",
        r"test_versions\.TestVersions\.test_what_came_with",
    ),
    Fault(
        "an order for a server is forgotten",
        "handlers/vps.py",
        "**{**now, **asked},",
        "**now,",
        r"test_servers\.TestServers\.test_a_tenant_refuses_help",
    ),
    Fault(
        "a tenant may exempt its server",
        "policies/vps.py",
        "EXEMPT,\n        base.ADMIN,",
        "EXEMPT,\n        base.PROJECT_MEMBER_OR_ADMIN,",
        r"test_servers\.TestServers\.test_a_tenant_orders_nothing",
    ),
    Fault(
        "each page of a list is the first one",
        "paging.py",
        'limit, call.query.get("marker"))',
        "limit, None)",
        r"test_hosts\.TestHosts\.test_pages",
    ),
    Fault(
        "a tenant may ask for the usage of others",
        "handlers/usage.py",
        "if project_id not in (None, call.project_id):",
        "if False:",
        r"test_usage\.TestUsage\.test_a_project_does_not_ask",
    ),
    Fault(
        "a what-if judges a server as if it ran nowhere",
        "handlers/what_if.py",
        "if one.host == newcomer.host:",
        "if False:",
        r"test_what_if\.TestWhatIf\.test_a_server_runs",
    ),
    Fault(
        "readers may call an overlay",
        "policies/overlays.py",
        "CALL,\n        base.PROJECT_MEMBER_OR_ADMIN,",
        "CALL,\n        base.PROJECT_READER_OR_OPERATOR,",
        r"test_overlays\.TestOverlays\.test_readers",
    ),
)
