# SPDX-License-Identifier: Apache-2.0
"""`vp` and `merlin`: the agent's own decision core on the modelled host.

The picture is made of what the seams give and the actions pass the agent's own hands, as in
`vp_agent.loop.tick`. Nothing here decides.
"""

from random import Random

from nova_vp.core.pipeline.confirm import confirm
from nova_vp.core.step import step
from nova_vp.core.types.decision import Decision
from nova_vp.core.types.picture import Picture
from nova_vp.core.types.policy import Controller, Mode, Policy
from nova_vp.core.types.state import CoreState
from vp_agent.loop.executor import Hands
from vp_sim.sim_drivers import Seams

EPOCH = 1


class OnTheCore:
    def __init__(self, seams: Seams, policy: Policy) -> None:
        self._seams = seams
        self._policy = policy
        self._hands = Hands(seams.journal, seams.actuators(), EPOCH)
        self._state = CoreState()
        self._limits = seams.limits()
        self.decision: Decision | None = None
        """The last one, for who watches."""

    def tick(self, now_s: float) -> None:
        picture = self._picture(now_s)
        state, decision = step(self._state, picture, self._policy)
        self.decision = decision
        self._hands.disown(decision.foreign)
        self._state = confirm(state, self._hands.apply(decision.actions, now_s))
        self._seams.actuator.set_paces(decision.memory_pace_kib_per_s)

    def _picture(self, now_s: float) -> Picture:
        seams = self._seams
        moves = seams.actuator.moves()
        self._hands.settle(moves)
        return Picture(
            at_s=now_s,
            mode=Mode.ENFORCE,
            topology=seams.guests.topology(),
            guests=seams.guests.read(),
            readings=seams.counters.read(seams.guests.threads()),
            applied=seams.journal.read(),
            knobs=self._hands.knobs,
            memory_moves=moves,
            limits=self._limits,
        )


def create_vp(seams: Seams, random: Random) -> OnTheCore:
    return OnTheCore(seams, Policy())


def create_merlin(seams: Seams, random: Random) -> OnTheCore:
    return OnTheCore(seams, Policy(controllers=frozenset(Controller)))
