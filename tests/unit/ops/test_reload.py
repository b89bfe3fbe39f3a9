# SPDX-License-Identifier: Apache-2.0
"""Signals that become calls, and configuration files that are read again."""

import logging
import signal
import threading
from collections.abc import Iterator

import pytest
from oslo_config import cfg

from nova_vp import conf as options
from nova_vp.conf.policy import policy_from
from nova_vp.core.types.topology import Limits
from nova_vp.service import lifecycle
from nova_vp.service.lifecycle import Reloader
from tests.policies import a_policy
from tests.unit.agent_host import World
from tests.unit.core.build import CHASE
from tests.waiting import wait_until


@pytest.fixture
def listening() -> Iterator[dict[signal.Signals, object]]:
    """What is called for which signal, until the test ends."""
    calls: dict[signal.Signals, object] = {signal.SIGUSR1: lambda: None, signal.SIGUSR2: None}
    before = {number: signal.getsignal(number) for number in calls}
    lifecycle.listen(calls)
    yield calls
    signal.set_wakeup_fd(-1)
    for number, handler in before.items():
        signal.signal(number, handler)


def test_a_call_is_made_on_another_thread_whatever_the_one_before_did(listening, caplog) -> None:
    heard = []

    def fail() -> None:
        raise ValueError("broken")

    listening[signal.SIGUSR1] = fail
    listening[signal.SIGUSR2] = lambda: heard.append(threading.current_thread().name)
    signal.raise_signal(signal.SIGUSR1)
    signal.raise_signal(signal.SIGUSR2)
    wait_until(lambda: heard, "the second signal")
    assert heard == ["signals"]
    assert "was not obeyed" in caplog.text


def test_a_lock_that_the_main_thread_holds_is_no_matter(listening) -> None:
    """As in Event.wait, where a handler that sets the event would wait for ever."""
    lock, done = threading.Lock(), threading.Event()

    def take() -> None:
        with lock:
            done.set()

    listening[signal.SIGUSR1] = take
    with lock:
        signal.raise_signal(signal.SIGUSR1)
    assert done.wait(10)


@pytest.fixture
def files(tmp_path):
    """A configuration that was read, and the file it came from."""
    file = tmp_path / "nova-vp.conf"
    file.write_text("[policy]\nmoves_per_minute = 3\n")
    conf = cfg.ConfigOpts()
    options.register_all(conf)
    conf(["--config-file", str(file)], default_config_dirs=[])
    return conf, file


def test_changed_numbers_are_taken_over_and_named(files, caplog) -> None:
    caplog.set_level(logging.INFO)
    conf, file = files
    taken = []
    file.write_text("[policy]\nmoves_per_minute = 9\n[agent]\nlibvirt_uri = x\n")
    Reloader(conf, lambda: taken.append(policy_from(conf).moves_per_minute)).reload()
    assert taken == [9]
    assert conf.agent.libvirt_uri == "qemu:///system"
    assert "changed: [policy] moves_per_minute" in caplog.text
    assert "Ignoring change to immutable option agent.libvirt_uri" in caplog.text


@pytest.mark.parametrize(
    "text",
    [
        "[policy]\nmoves_per_minute = soup\n",
        "[policy]\neffect_window_s = nan\nmoves_per_minute = 9\n",
        "[policy]\nmoves_per_minute = 9\n[controller_latency]\ncpi_models = soup=1.2x/4\n",
        "no section\n",
        None,
    ],
)
def test_nonsense_changes_nothing(files, caplog, text) -> None:
    conf, file = files
    if text is None:
        file.unlink()
    else:
        file.write_text(text)
    Reloader(conf, lambda: pytest.fail("it was taken over")).reload()
    assert policy_from(conf).moves_per_minute == 3
    assert "the former values hold; correct this and reload again" in caplog.text


def test_what_the_process_itself_refuses_is_told(files, caplog) -> None:
    conf, _ = files

    def refuse() -> None:
        raise cfg.Error("[agent] remote_penalty_ratio = 0.5: give 1 or more")

    Reloader(conf, refuse).reload()
    assert "give 1 or more" in caplog.text


OF_POLICY = frozenset({"policy", "islands"})
"""They and the groups of controllers make the policy, which a tick takes over."""


def test_a_number_may_change_only_where_somebody_takes_it_over() -> None:
    """An option that is marked and read once at start would lie."""
    marked = {
        f"{group}.{option.dest}"
        for group, listed in options.list_opts()
        for option in listed
        if option.mutable and group not in OF_POLICY and not group.startswith("controller_")
    }
    of_escalation = {name for name in marked if name.startswith("vp_scheduler.escalation_")}
    assert marked - of_escalation == {
        "agent.interval_s",
        "agent.link_limit_misses_per_s",
        "agent.metrics_servers",
        "agent.node_limit_misses_per_s",
        "agent.remote_penalty_ratio",
        "bus.min_publish_interval_s",
        "bus.refresh_interval_s",
        "vp_scheduler.known_hosts",
    }
    assert "vp_scheduler.escalation_lease_s" not in of_escalation


@pytest.mark.needs_controllers("initial_placement")
def test_a_running_agent_takes_limits_and_policy_with_its_next_tick(tmp_path) -> None:
    world = World(tmp_path / "state", policy=a_policy(home_on_arrival="never"))
    world.boot(CHASE)
    agent = world.start_agent()
    before = world.tick(2)
    agent.apply_config(a_policy(home_on_arrival="always"), Limits(node_misses_per_s=5e6), 1.0)
    after = world.tick(3)
    assert {node.limit_misses_per_s for node in before.nodes} == {None}
    assert {node.limit_misses_per_s for node in after.nodes} == {5e6}
    homed = [o.action.reason.code for o in world.heard.outcomes]
    assert homed == ["home-on-arrival"]
