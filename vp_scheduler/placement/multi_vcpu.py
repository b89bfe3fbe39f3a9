# SPDX-License-Identifier: Apache-2.0
"""What a newcomer with several vCPUs makes residents lose, from tables for one that is busy.

Several bring in as many times the lines. By `predict` a resident's extra cycles grow with these
lines, less and less; the tables tell how fast, from the quietest class to the most pressing one. It
is taken to go on like that, which is too much rather than too little. What the newcomer itself
loses in the cache is left as one vCPU would lose it, which is too much as well: several hold more
of it. What all of them wait for CPU is added: the tables have it for one vCPU.
"""

from collections.abc import Callable

from nova_vp import wire
from nova_vp.core.model.predict import FALLBACK_CLOCK_HZ, newcomers
from nova_vp.core.types.policy import Policy
from vp_scheduler.placement.host_digest import HostDigest, Loss

_PRESSURES = [one.pressure_per_s for one in newcomers(FALLBACK_CLOCK_HZ, Policy())]
_QUIET, _PRESSING = (_PRESSURES.index(most) for most in (min(_PRESSURES), max(_PRESSURES)))
_STEPS = tuple(one / (_PRESSURES[_PRESSING] - _PRESSURES[_QUIET]) for one in _PRESSURES)
"""Of the way from the quietest class to the most pressing one, what one more vCPU adds."""
_EXTRA = tuple(lost / (1000 - lost) for lost in range(1000))
"""Cycles that are added to each, by the share of performance that is lost with them."""


def busy_vcpus(digest: HostDigest, number: int, share: float) -> float:
    """Of the vCPUs that a server has in a place, those that can run at once, in one LLC domain."""
    return min(share, digest.cpus[number]) / digest.domains


def speed_with(digest: HostDigest, number: int, busy: float) -> float:
    """Speed of all vCPUs of a place with so many busy ones more, over that with one more."""
    cpus, used = digest.cpus[number], digest.used[number]
    wanted = used + busy * digest.domains
    if busy <= 1 or wanted <= cpus:
        return 1.0
    return float(max(cpus, used + 1) / wanted)


def loss_made(
    digest: HostDigest, loss: int, number: int, newcomer_class: int, busy: float
) -> float:
    """`loss`: RESIDENT or STRICT. Without what is waited for CPU."""
    # As `HostDigest.loss` reads, without its calls: this is done per host and request.
    losses, row = digest.losses, wire.PREDICT_CLASSES * (loss * len(digest.cpus) + number)
    one, most = losses[row + newcomer_class], losses[row + _PRESSING]
    if busy <= 1 or not most or one >= 1000 or most >= 1000:
        return one / 1000
    quiet = losses[row + _QUIET]
    if most <= quiet:
        return one / 1000
    rise = _EXTRA[most] - _EXTRA[quiet]
    extra = _EXTRA[one] + (busy - 1) * _STEPS[newcomer_class] * rise
    return extra / (1 + extra)


def _least_made(
    digest: HostDigest,
    loss: int,
    number: int,
    newcomer_class: int,
    busy: float,
    learned_class: int | None,
) -> float:
    made = loss_made(digest, loss, number, newcomer_class, busy)
    if learned_class is None:
        return made
    return min(made, loss_made(digest, loss, number, learned_class, busy))


def slowed(loss: float, speed: float) -> float:
    return loss + (1 - loss) * (1 - speed)


def losses_made(
    digest: HostDigest,
    number: int,
    newcomer_class: int,
    busy: float,
    learned_class: int | None = None,
) -> tuple[float, ...]:
    """By `Loss`. `learned_class`: residents lose no more than to this one."""
    kind = newcomer_class, busy, learned_class
    speed = speed_with(digest, number, busy)
    lost = slowed(digest.loss(Loss.NEWCOMER, number, newcomer_class), speed)
    resident = _least_made(digest, Loss.RESIDENT, number, *kind)
    strict = _least_made(digest, Loss.STRICT, number, *kind)
    # Where nothing is lost, nobody may be there.
    resident, strict = (loss and slowed(loss, speed) for loss in (resident, strict))
    return lost, resident, strict, max(lost, resident), max(lost, strict)


_MADE = (None, int(Loss.RESIDENT), int(Loss.STRICT), int(Loss.RESIDENT), int(Loss.STRICT))
"""Whose loss is in each `Loss`, besides the newcomer's own."""


def one_loss(
    loss: int, newcomer_class: int, learned_class: int | None = None
) -> Callable[[HostDigest, int, float], float]:
    """One of `losses_made`, for less: a function of a digest, a place, and the newcomer's vCPUs
    there. Thousands of hosts are judged by it."""
    whose = _MADE[loss]
    has_own_loss = whose != loss

    def lost_in(digest: HostDigest, number: int, share: float) -> float:
        busy = busy_vcpus(digest, number, share)
        speed = speed_with(digest, number, busy)
        made = lost = 0.0
        if whose is not None:
            made = _least_made(digest, whose, number, newcomer_class, busy, learned_class)
            if speed < 1 and made:
                made = slowed(made, speed)
        if has_own_loss:
            lost = digest.loss(0, number, newcomer_class)
            if speed < 1:
                lost = slowed(lost, speed)
        return made if made > lost else lost

    return lost_in
