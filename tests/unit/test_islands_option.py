# SPDX-License-Identifier: Apache-2.0
"""`[islands]`: what may stand there, what comes of it, and what is said of anything else."""

import pytest
from oslo_config import cfg

from nova_vp import conf as options
from nova_vp.conf.islands import EXAMPLE, read_islands
from nova_vp.conf.policy import policy_from
from nova_vp.core.types.island import Island, Scheduler
from nova_vp.core.types.policy import Policy


def policy_of(tmp_path, text: str) -> Policy:
    conf = cfg.ConfigOpts()
    options.register_all(conf)
    file = tmp_path / "nova-vp.conf"
    file.write_text(text)
    conf(["--config-file", str(file)])
    options.check(conf)
    return policy_from(conf)


def test_without_it_there_are_no_islands_and_no_cap(tmp_path) -> None:
    policy = policy_of(tmp_path, "")
    assert (policy.islands, policy.host_cap_cores) == ((), None)


def test_the_example_of_the_help_is_read(tmp_path) -> None:
    policy = policy_of(tmp_path, f"[islands]\nlayout = {EXAMPLE}\nhost_cap_cores = 10.5\n")
    assert policy.islands == (
        Island("web", frozenset(range(8))),
        Island("batch", frozenset(range(8, 16)), Scheduler.CAPPED, 4.0),
        Island("voice", frozenset(range(16, 20)), Scheduler.EXCLUSIVE),
    )
    assert policy.host_cap_cores == 10.5


def test_a_kind_may_be_left_out() -> None:
    assert read_islands("a: 0-1;") == (Island("a", frozenset({0, 1})),)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a: 0-3; b: 3-5", "CPU 3 is in a and in b: a CPU is in one island at most"),
        ("a: 0; a: 1", "two islands are 'a'"),
        ("a: 0-3 odd", "'odd' is no kind of island: use fair, capped, exclusive"),
        ("a: 0-3 capped", "kind capped needs the cores that it may use"),
        ("a: 0-3 fair 2", "others none"),
        ("a: 0-3 capped 5", "'5' is no number of cores up to 4"),
        ("a: 0-3 capped nan", "'nan' is no number of cores up to 4"),
        ("a: 0-3 capped x", "'x' is no number of cores up to 4"),
        ("a: 0-x", "'0-x' is not a CPU or a range of them"),
        ("a: ^0", "names no CPU"),
        ("soup", "'soup' is no island: write NAME: CPUS KIND"),
        ("a b: 0", "'a b: 0' is no island"),
    ],
)
def test_what_is_wrong_is_told(tmp_path, text: str, told: str) -> None:
    with pytest.raises(cfg.Error, match=r"\[islands\] layout") as caught:
        policy_of(tmp_path, f"[islands]\nlayout = {text}\n")
    assert told in str(caught.value)
