# SPDX-License-Identifier: Apache-2.0
"""What raising a server does to those beside it: how much longer they wait for a CPU, and how many
more cycles the same work takes them, than while nothing was raised.

Where one of them loses more than `most_harm_ratio`, what raised the server ends, and the credit of
its overlay is halved. Where nobody measures, nothing can be told. `pace.py` says what is compared.
"""

from collections.abc import Iterable
from statistics import fmean

from nova_vp.core.controllers.overlays.declaration import Harm, Pace
from nova_vp.core.controllers.overlays.desk import Desk
from nova_vp.core.controllers.overlays.pace import loss_ratio, lower, pace_of, renewed, seen_since
from nova_vp.core.controllers.overlays.tune import WEIGHT_STEP
from nova_vp.core.controllers.overlays.weights import weight_of
from nova_vp.core.types.guest import Guest

JUDGED_SAMPLES = 3
"""The latest, of a weight that was tuned: one may be far off. A trigger is over by then, and is
judged by the first one."""
QUIET_SAMPLES = 10
"""A server that is raised again before so many is judged by the paces of before: else who is raised
again and again would have each time what it did to others taken for theirs."""


def measure_harm(desk: Desk) -> None:
    """Of what was raised before this run."""
    for uuid, harm in list(desk.harms.items()):
        if uuid not in desk.view.host.guests or harm.overlay_id not in desk.overlays:
            del desk.harms[uuid]
            continue
        is_raised = _is_raised(desk, uuid)
        after = _with_sample(desk, uuid, harm)
        if after is None:
            if not is_raised and not any(_watched(desk, uuid, harm)):
                del desk.harms[uuid]
        elif harm.quiet_samples and not is_raised:
            desk.harms[uuid] = _renewed(desk, harm, after.at_s)
            if harm.quiet_samples >= QUIET_SAMPLES:
                del desk.harms[uuid]
        elif _is_too_much(desk, after):
            _end(desk, uuid, harm.overlay_id)
            desk.harms[uuid] = after._replace(losses=(), is_triggered=False)
        else:
            desk.harms[uuid] = after._replace(
                is_triggered=False, quiet_samples=0 if is_raised else 1
            )


def watch_raised(desk: Desk) -> None:
    """Note how those beside a raised server did before; those that came later, how they do."""
    for uuid in desk.boosts.keys() | desk.tuned.keys():
        if not _is_raised(desk, uuid):
            continue
        grant = desk.boosts.get(uuid) or desk.tuned[uuid]
        harm = desk.harms.get(uuid) or Harm(grant.overlay_id, (), desk.now_s)
        if not desk.view.on_call or uuid not in desk.harms:
            harm = harm._replace(before=_watched(desk, uuid, harm))
        is_triggered = harm.is_triggered or uuid in desk.boosts
        desk.harms[uuid] = harm._replace(
            overlay_id=grant.overlay_id, is_triggered=is_triggered, quiet_samples=0
        )


def _is_raised(desk: Desk, uuid: str) -> bool:
    tuned = desk.tuned.get(uuid)
    return uuid in desk.boosts or (tuned is not None and tuned.weight_times > 1.0)


def _watched(desk: Desk, uuid: str, harm: Harm) -> tuple[Pace, ...]:
    known = {one.uuid: one for one in harm.before}
    found = []
    for one in _others(desk, desk.view.host.guests[uuid], harm.overlay_id):
        before = known.get(one.uuid)
        if before is not None:
            found.append(lower(before, desk.view.host.vps[one.uuid].cpu_use))
        elif (pace := pace_of(desk, one.uuid)) is not None:
            found.append(pace)
    return tuple(found)


def _others(desk: Desk, guest: Guest, overlay_id: str) -> Iterable[Guest]:
    members = desk.overlays[overlay_id].members
    return (one for one in desk.beside(guest) if one.uuid not in members)


def _with_sample(desk: Desk, uuid: str, harm: Harm) -> Harm | None:
    """None: nobody measured since."""
    vps, guest = desk.view.host.vps, desk.view.host.guests[uuid]
    there = {one.uuid for one in _others(desk, guest, harm.overlay_id)}
    seen = [
        (before, pace)
        for before in harm.before
        if before.uuid in there and (pace := seen_since(vps[before.uuid], harm.at_s)) is not None
    ]
    if not seen:
        return None
    loss = max(loss_ratio(before, pace, desk.view.policy) for before, pace in seen)
    if not _took_more(desk, guest):
        loss = 0.0
    losses = (*harm.losses, loss)[-JUDGED_SAMPLES:]
    return harm._replace(at_s=desk.now_s, losses=losses)


def _took_more(desk: Desk, guest: Guest) -> bool:
    """More CPU than what Nova gave would have got it while all others want all that they can get.
    Less than that it only got sooner: others wait as long for its work if it is not raised."""
    use = desk.view.host.vps[guest.uuid].cpu_sample
    if use is None:
        return True
    given = {one.uuid: weight_of(desk, one, 1.0).number for one in desk.on(guest.placement)}
    return use.ran_cores > len(guest.placement) * given[guest.uuid] / sum(given.values())


def _renewed(desk: Desk, harm: Harm, at_s: float) -> Harm:
    """With the pace of this sample, in which nothing was raised."""
    vps = desk.view.host.vps
    before = tuple(
        renewed(one, pace)
        if one.uuid in vps and (pace := seen_since(vps[one.uuid], harm.at_s)) is not None
        else one
        for one in harm.before
    )
    return harm._replace(before=before, at_s=at_s, losses=(), quiet_samples=harm.quiet_samples + 1)


def _is_too_much(desk: Desk, harm: Harm) -> bool:
    judged = harm.losses[-1:] if harm.is_triggered else harm.losses
    enough = harm.is_triggered or len(judged) == JUDGED_SAMPLES
    return enough and fmean(judged) > desk.settings.most_harm_ratio


def _end(desk: Desk, uuid: str, overlay_id: str) -> None:
    desk.note_change(uuid)
    desk.boosts.pop(uuid, None)
    tuned = desk.tuned.get(uuid)
    if tuned is not None and tuned.weight_times > 1.0:
        times = max(tuned.weight_times / WEIGHT_STEP, 1.0)
        desk.tuned[uuid] = tuned._replace(weight_times=times)
    desk.halve_credit(desk.overlays[overlay_id])
