# SPDX-License-Identifier: Apache-2.0
"""What raising a server does to those beside it: how much longer they wait for a CPU than before.

Where one of them loses more than `most_harm_ratio`, what raised the server ends, and the credit of
its overlay is halved. Where nobody measures CPU waiting, nothing can be told.
"""

from statistics import fmean

from nova_vp.core.controllers.overlays.declaration import Harm
from nova_vp.core.controllers.overlays.desk import Desk
from nova_vp.core.controllers.overlays.tune import WEIGHT_STEP
from nova_vp.core.types.cpu_time import CpuUse

JUDGED_SAMPLES = 3
"""The latest, of a weight that was tuned: one may be far off. A trigger is over by then, and is
judged by the first one."""


def measure_harm(desk: Desk) -> None:
    """Of what was raised before this run."""
    for uuid, harm in list(desk.harms.items()):
        after = _with_sample(desk, harm)
        if uuid not in desk.view.host.guests or harm.overlay_id not in desk.overlays:
            del desk.harms[uuid]
        elif after is None:
            if not harm.before and not _is_raised(desk, uuid):
                del desk.harms[uuid]
        elif _is_too_much(desk, after):
            _end(desk, uuid, harm.overlay_id)
            desk.harms[uuid] = after._replace(losses=(), is_triggered=False)
        elif not _is_raised(desk, uuid):
            del desk.harms[uuid]
        else:
            desk.harms[uuid] = after._replace(is_triggered=False)


def watch_raised(desk: Desk) -> None:
    """Note how those beside a raised server did before."""
    for uuid in desk.boosts.keys() | desk.tuned.keys():
        if uuid not in desk.harms and _is_raised(desk, uuid):
            grant = desk.boosts.get(uuid) or desk.tuned[uuid]
            desk.harms[uuid] = _begun(desk, uuid, grant.overlay_id)
        if uuid in desk.boosts:
            desk.harms[uuid] = desk.harms[uuid]._replace(is_triggered=True)


def _is_raised(desk: Desk, uuid: str) -> bool:
    tuned = desk.tuned.get(uuid)
    return uuid in desk.boosts or (tuned is not None and tuned.weight_times > 1.0)


def _begun(desk: Desk, uuid: str, overlay_id: str) -> Harm:
    members = desk.overlays[overlay_id].members
    beside = [one for one in desk.beside(desk.view.host.guests[uuid]) if one.uuid not in members]
    before = tuple(
        (one.uuid, use.waiting_ratio)
        for one in beside
        if (use := desk.view.host.vps[one.uuid].cpu_use) is not None
    )
    return Harm(overlay_id, before, desk.now_s)


def _with_sample(desk: Desk, harm: Harm) -> Harm | None:
    """None: nobody measured since."""
    found: list[tuple[CpuUse, float]] = []
    for uuid, before in harm.before:
        vp = desk.view.host.vps.get(uuid)
        if vp is not None and vp.cpu_sample is not None and vp.cpu_sample.at_s > harm.at_s:
            found.append((vp.cpu_sample, before))
    if not found:
        return None
    loss = max(max(use.waiting_ratio - before, 0.0) for use, before in found)
    losses = (*harm.losses, loss)[-JUDGED_SAMPLES:]
    return harm._replace(at_s=max(use.at_s for use, _ in found), losses=losses)


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
    desk.change_account(overlay_id, credit_s=desk.account(overlay_id).credit_s / 2)
