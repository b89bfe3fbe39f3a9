# SPDX-License-Identifier: Apache-2.0
"""What controllers keep for the next run of the agent: a restart forgives no server a debt."""

from pathlib import Path

import pytest

from nova_vp.core.controllers.permits.declaration import Account, Accounts, Own
from nova_vp.core.types.state import CoreState
from tests.policies import a_policy
from tests.unit.agent_host import World
from tests.unit.core.build import COMPUTE
from vp_agent.loop import kept_states
from vp_agent.loop.state import StateFolder, StateKeeper

DEBT = Account(-1234.5, 99.0, 900.0, own=Own(0.5, 45.0, 1.0, 0.0))


def test_what_controllers_keep_comes_back_without_moments_of_this_run() -> None:
    text = kept_states.as_text({"permits": Accounts({"a": DEBT}), "vp": object()})
    kept = Account(-1234.5, None, 900.0, own=DEBT.own)
    assert kept_states.from_text(text) == {"permits": Accounts({"a": kept})}


def test_of_a_first_run_there_is_nothing(tmp_path: Path) -> None:
    assert StateFolder(str(tmp_path)).controllers() == {}
    assert kept_states.from_text(kept_states.as_text({})) == {}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[",
        "[]",
        "1",
        '{"permits": 1}',
        '{"permits": {"by_guest": {"a": {"balance": "x"}}}}',
        '{"permits": {"by_guest": {"a": {"of_a_later_release": 1}}}}',
        "[" * 100_000,
    ],
)
def test_what_cannot_be_read_is_as_if_it_had_never_been(text: str, tmp_path: Path) -> None:
    folder = StateFolder(str(tmp_path))
    folder.set_controllers(text)
    assert folder.controllers() == {}


def test_what_a_controller_keeps_that_is_gone_is_left_out() -> None:
    assert kept_states.from_text('{"of_another_package": {}}') == {}


def test_a_restart_of_the_agent_forgives_no_debt(tmp_path: Path) -> None:
    world = World(tmp_path, policy=a_policy(controllers=("permits",)))
    agent = world.start_agent()
    uuid = world.boot(COMPUTE, controller_keys=(("vp:llc_permit", "900"),), cap_floor_ratio=0.01)
    agent.state = CoreState(controllers={"permits": Accounts({uuid: DEBT})})
    StateKeeper(StateFolder(str(tmp_path))).save(agent.state)
    world.now_s = 10.0
    agent = world.start_agent()
    world.tick()
    assert agent.state.controllers["permits"].by_guest[uuid].balance == DEBT.balance


def test_what_did_not_change_is_not_written_again(tmp_path: Path) -> None:
    folder = StateFolder(str(tmp_path))
    keeper = StateKeeper(folder)
    keeper.save(CoreState())
    assert folder.controllers() == {}
    keeper.save(CoreState(controllers={"permits": Accounts({"a": DEBT})}))
    assert folder.controllers()
    (tmp_path / "controllers.json").unlink()
    keeper.save(CoreState(controllers={"permits": Accounts({"a": DEBT})}))
    assert folder.controllers() == {}
