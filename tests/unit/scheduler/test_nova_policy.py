# SPDX-License-Identifier: Apache-2.0
"""The rights that we ask of Nova's operators, judged by Nova's own rules: those and no others."""

import warnings
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import yaml
from oslo_config import cfg
from oslo_policy import policy

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from nova import policies

pytestmark = [
    pytest.mark.nova,
    # Nova's rules tell of what they were called before.
    pytest.mark.filterwarnings("ignore::UserWarning"),
]

FOLDER = Path(__file__).parents[3] / "etc" / "nova-vp"
IS_NOVA_31 = version("nova").startswith("31.")
FILE = FOLDER / ("nova-policy-31.yaml" if IS_NOVA_31 else "nova-policy.yaml")
API = "os_compute_api:"
NEEDED = {
    "os-aggregates:index",
    "os-extended-server-attributes",
    "os-instance-actions:list",
    "os-migrate-server:migrate_live",
    "os-migrations:index",
    "os-server-groups:index",
    "servers:detail",
    "servers:migrations:delete",
    "servers:migrations:index",
    "servers:show",
    "servers:show:flavor-extra-specs",
    "servers:show:host_status",
}
if not IS_NOVA_31:
    NEEDED |= {"os-migrations:index:host", "servers:migrations:index:host"}
OF_NO_PROJECT = {API + "os-aggregates:index"}
if IS_NOVA_31:
    OF_NO_PROJECT |= {API + "os-migrations:index"}


def enforcer(folder: Path, file: Path | None) -> policy.Enforcer:
    conf = cfg.ConfigOpts()
    conf([], default_config_files=[])
    found = policy.Enforcer(conf, policy_file=str(file or folder / "none.yaml"))
    found.suppress_default_change_warnings = True
    found.suppress_deprecation_warnings = True
    found.register_defaults(policies.list_rules())
    return found


def allowed(enforcer: policy.Enforcer, role: str, target_project: str = "p1") -> set[str]:
    """Everything that somebody with this role in project p1 may do to something of that one."""
    who: dict[str, Any] = {"roles": [role], "project_id": "p1", "user_id": "u1"}
    target = {"project_id": target_project, "user_id": "u1"}
    names = (rule.name for rule in policies.list_rules())
    return {name for name in names if enforcer.authorize(name, target, who)}


@pytest.fixture
def before(tmp_path: Path) -> policy.Enforcer:
    return enforcer(tmp_path, None)


@pytest.fixture
def after(tmp_path: Path) -> policy.Enforcer:
    return enforcer(tmp_path, FILE)


def test_our_role_may_do_what_is_needed_and_nothing_else(
    before: policy.Enforcer, after: policy.Enforcer
) -> None:
    won = allowed(after, "vp_escalation") - allowed(before, "vp_escalation")
    assert won == {API + name for name in NEEDED}
    assert API + "os-migrate-server:migrate_live:host" not in allowed(after, "vp_escalation")


def test_not_in_other_projects(before: policy.Enforcer, after: policy.Enforcer) -> None:
    """But aggregates, which are of no project; and Nova 31 lists migrations of all."""
    assert allowed(after, "vp_escalation", "p2") - OF_NO_PROJECT == allowed(
        before, "vp_escalation", "p2"
    )


def test_the_file_names_rules_of_this_nova_alone() -> None:
    known = {rule.name for rule in policies.list_rules()}
    assert set(yaml.safe_load(FILE.read_text())) <= known


@pytest.mark.parametrize("role", ["admin", "manager", "member", "reader", "service"])
@pytest.mark.parametrize("project", ["p1", "p2"])
def test_nobody_else_wins_or_loses(
    before: policy.Enforcer, after: policy.Enforcer, role: str, project: str
) -> None:
    assert allowed(after, role, project) == allowed(before, role, project)
