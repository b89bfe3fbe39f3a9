# SPDX-License-Identifier: Apache-2.0
"""A lab with Horizon, two tenants on one of its hosts, and a browser for each user."""

from contextlib import ExitStack

import pytest

from testbed.lab import settings
from tests.lab.dashboard.stage import HOST, OWNER, Stage, bring_up, environment
from tests.lab.operators import host_conf, reconfigured
from tests.openstack_shell import Shell

READER, NOBODY = "t-reader", "t-nobody"
ROLES = {READER: "reader", NOBODY: None}
"""In the project of OWNER."""
WITH_PERMITS = "[policy]\ncontrollers = initial_placement,rebalance,vp,permits"
"""So that there is usage."""


@pytest.fixture(scope="module")
def shell():
    one = Shell()
    yield one
    one.close()


@pytest.fixture(scope="module")
def stage(admin, cleared):
    bring_up()
    with reconfigured(host_conf(HOST), WITH_PERMITS, f"vp-agent@{HOST}"):
        yield Stage(admin)


@pytest.fixture(scope="module")
def overlay(stage, shell):
    """Of the tenant, with its server."""
    command = f"vp overlay create shop --server {stage.victim.id} --target 5 --target-unit ms"
    shell.run("vp overlay delete shop", environment(OWNER))  # An interrupted run may have left it.
    made = shell.run(f"{command} -f json", environment(OWNER)).json
    yield made["id"]
    assert shell.run(f"vp overlay delete {made['id']}", environment(OWNER)).rc == 0


@pytest.fixture(scope="module")
def newcomers(admin):
    """A reader, and one who has no role anywhere."""
    project = admin.identity.find_project(OWNER)
    made = []
    for name, role in ROLES.items():
        user = admin.identity.create_user(
            name=name, password=settings.PASSWORD, domain_id="default"
        )
        made.append(user)
        if role:
            found = admin.identity.find_role(role)
            admin.identity.assign_project_role_to_user(project, user, found)
    yield
    for user in made:
        admin.identity.delete_user(user)


@pytest.fixture(scope="module")
def chromium(stage):
    """Installed by `bring_up`, with what drives it."""
    from testbed.dashboard import browser

    return browser


@pytest.fixture(scope="module")
def browser(chromium):
    with chromium.running() as one:
        yield one


@pytest.fixture(scope="module")
def page_of(chromium, browser, newcomers):
    """Of a user, who logs in once."""
    pages = {}
    with ExitStack() as stack:

        def page(user):
            if user not in pages:
                login = chromium.log_in(browser, settings.HORIZON_URL, user, settings.PASSWORD)
                pages[user] = stack.enter_context(login).new_page()
            return pages[user]

        yield page
