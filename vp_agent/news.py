# SPDX-License-Identifier: Apache-2.0
"""What counts as news: a difference between two decisions that is worth a message at once."""

from nova_vp.core.model import Decision, DomainView, VpView

NEWS_RATIO = 0.02
"""A predicted loss that moved by less is no news."""
NEWS_CORES = 0.5
"""Free CPU of a domain that moved by less is no news."""


def is_news(old: Decision, new: Decision) -> bool:
    """Whether the change between two decisions is worth a message before the next refresh."""
    if old.mode is not new.mode or len(old.domains) != len(new.domains):
        return True
    if [p.id for p in old.proposals] != [p.id for p in new.proposals]:
        return True
    if [_essence(view) for view in old.vps] != [_essence(view) for view in new.vps]:
        return True
    if old.domains is new.domains:
        return False
    return any(_is_domain_news(*pair) for pair in zip(old.domains, new.domains, strict=True))


def _essence(view: VpView) -> tuple[object, ...]:
    last = view.history[-1] if view.history else None
    return (
        view.guest.uuid,
        view.state,
        view.sensitivity,
        view.domain_ids,
        view.guest.unmanaged,
        view.guest.isolation,
        view.detection is None,
        last and (last.action.id, last.result),
    )


def _is_domain_news(old: DomainView, new: DomainView) -> bool:
    if old.domain != new.domain or old.allocated_vcpus != new.allocated_vcpus:
        return True
    if abs(old.free_cores - new.free_cores) >= NEWS_CORES:
        return True
    return any(
        abs(getattr(before, name) - getattr(after, name)) >= NEWS_RATIO
        for before, after in zip(old.table, new.table, strict=True)
        for name in ("newcomer_ratio", "worst_resident_ratio", "worst_strict_ratio")
    )
