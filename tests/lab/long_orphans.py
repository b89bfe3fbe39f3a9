# SPDX-License-Identifier: Apache-2.0
"""No pin and no cap of ours outlives any other kind of move: `make orphan-test`, some minutes.

Aborted and failed live migrations, cold ones, resizes, shelving and evacuation, with the servers
and witnesses of `test_orphans`.
"""

import subprocess

from testbed.lab import cloud, settings
from tests.lab.compute_nodes import wait_until_usable
from tests.lab.held import Given
from tests.lab.hosts import order
from tests.lab.test_orphans import (
    NOVA_DEADLINE_S,
    QUOTA,
    RELEASE_DEADLINE_S,
    convoy,
    on_its_way,
    without_agent,
)

__all__ = ["convoy"]
LAB = str(settings.LAB / "lab")


def test_an_aborted_live_migration_leaves_all_in_the_hands_of_the_living_agent(convoy):
    convoy.hold()
    for server in convoy.servers:
        with on_its_way(convoy, server) as migration:
            convoy.admin.compute.abort_server_migration(migration, server)
        assert convoy.migrations(server)[0].status in ("cancelled", "error")
    convoy.assert_nothing_left(convoy.other)
    convoy.assert_held()
    assert order(convoy.host, "release") is True
    convoy.assert_free()


def test_a_failed_live_migration_leaves_all_in_the_hands_of_the_living_agent(convoy):
    """The destination's libvirtd dies while the guest is on its way."""
    convoy.hold()
    for server in convoy.servers:
        with on_its_way(convoy, server):
            cloud.kill(f"libvirtd@{convoy.other}")
        wait_until_usable(convoy.admin, convoy.other)
        assert convoy.migrations(server)[0].status in ("error", "failed")
    convoy.assert_nothing_left(convoy.other)
    convoy.assert_held()
    assert order(convoy.host, "release") is True
    convoy.assert_free()


def test_an_agent_that_dies_before_the_abort_is_stood_in_for(convoy):
    """By the timer's `vp-agent release --expired`, which meets a guest on its way first."""
    convoy.hold()
    moving, resting = convoy.servers
    with without_agent(convoy.host):
        with on_its_way(convoy, moving) as migration:
            cloud.wait_for(
                lambda: not convoy.orphans_of(convoy.of(resting)),
                "the release of the server that stays",
                deadline_s=RELEASE_DEADLINE_S,
            )
            convoy.admin.compute.abort_server_migration(migration, moving)
        convoy.assert_free(deadline_s=RELEASE_DEADLINE_S)
    convoy.assert_nothing_left(convoy.other)


def test_cold_migration_and_its_confirmation(convoy):
    convoy.hold()
    source = convoy.host
    convoy.each(lambda s: convoy.admin.compute.migrate_server(s, host=convoy.other))
    convoy.wait_for("VERIFY_RESIZE", convoy.other)
    convoy.assert_free()
    convoy.hold()
    convoy.each(convoy.admin.compute.confirm_server_resize)
    convoy.wait_for("ACTIVE")
    convoy.assert_nothing_left(source)
    convoy.assert_held()
    assert order(convoy.host, "release") is True
    convoy.assert_free()


def test_resize_and_its_reversion(convoy):
    """To a flavor without a quota, pinned and capped anew there, and back."""
    convoy.hold()
    source, there = convoy.host, convoy.other
    convoy.each(lambda s: convoy.admin.compute.resize_server(s, "t.convoy-larger"))
    convoy.wait_for("VERIFY_RESIZE", there)
    convoy.given = Given()
    convoy.assert_free()
    convoy.hold()
    convoy.each(convoy.admin.compute.revert_server_resize)
    convoy.wait_for("ACTIVE", source)
    convoy.given = QUOTA
    convoy.assert_free()
    convoy.assert_nothing_left(there)


def test_shelve_and_unshelve_where_it_is(convoy):
    convoy.hold()
    convoy.each(convoy.admin.compute.shelve_server)
    convoy.wait_for("SHELVED")
    assert convoy.orphans() == {}, "what is defined and does not run"
    convoy.each(convoy.admin.compute.unshelve_server)
    convoy.wait_for("ACTIVE")
    convoy.assert_free()


def test_shelve_offload_and_unshelve_elsewhere(convoy):
    convoy.hold()
    source, there = convoy.host, convoy.other
    convoy.each(convoy.admin.compute.shelve_server)
    convoy.wait_for("SHELVED")
    convoy.each(convoy.admin.compute.shelve_offload_server)
    convoy.wait_for("SHELVED_OFFLOADED", None)
    convoy.assert_nothing_left(source)
    convoy.each(lambda s: convoy.admin.compute.unshelve_server(s, host=there))
    convoy.wait_for("ACTIVE", there)
    convoy.assert_free()


def test_evacuation_of_a_dead_host_which_comes_back(convoy):
    """The last act: the host comes back with the lab's own configuration."""
    convoy.hold()
    dead, compute = convoy.host, convoy.admin.compute
    subprocess.run([LAB, "power-off", dead], check=True)
    cloud.wait_for(
        lambda: all(s.state == "down" for s in compute.services(host=dead)),
        f"Nova to miss {dead}",
        deadline_s=NOVA_DEADLINE_S,
        interval_s=1,
    )
    try:
        convoy.each(lambda s: compute.evacuate_server(s, host=convoy.other))
        convoy.wait_for("SHUTOFF", convoy.other)  # Nova leaves the start to people.
        convoy.each(compute.start_server)
        convoy.wait_for("ACTIVE")
        convoy.assert_free()
    finally:
        subprocess.run([LAB, "up"], check=True)
    convoy.assert_nothing_left(dead)
