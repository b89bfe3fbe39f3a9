# SPDX-License-Identifier: Apache-2.0
"""What a server is taken for before its new host can measure it: a newcomer class, and why.

In this order: what it was measured to be on the host that it leaves; what its flavor says; what the
measured members of its server group are like; unknown. An unknown one has besides, as far as it was
learned, the class of others' servers of its flavor and image, then of its flavor. That one speaks
for it only, since others' servers decide it: residents lose no more to it than to that class.

Of Nova's objects only what is there already is read: touching an unset field would load it from the
database.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from nova_vp import wire
from nova_vp.flavor_specs import FlavorSpec
from nova_vp.newcomer_class import most_common
from vp_scheduler.ingest.profile_cache import ProfileCache
from vp_scheduler.placement.host_digest import HostDigest
from vp_scheduler.placement.host_view import HostView


@dataclass(frozen=True, slots=True)
class Profile:
    newcomer_class: int
    source: str
    """For people."""
    learned_class: int | None = None
    """Of others' servers like it, where it is unknown itself."""

    def __str__(self) -> str:
        if self.learned_class is not None:
            return (
                f"unknown; residents lose no more than to state {self.learned_class}, {self.source}"
            )
        if self.newcomer_class == wire.UNKNOWN_CLASS:
            return "nobody knows what it does"
        return f"taken for state {self.newcomer_class}, {self.source}"


UNKNOWN = Profile(wire.UNKNOWN_CLASS, "unknown")


def profile_of_request(spec: Any, flavor: FlavorSpec, view: HostView) -> Profile:
    """Of the server that a RequestSpec asks a host for."""
    return (
        _measured(spec.instance_uuid, hosts_left(spec), view)
        or _expected(flavor)
        or _of_group(spec, view)
        or _learned(field_of(spec.flavor, "name") or "", _image_of(spec), view.learned)
        or UNKNOWN
    )


def profile_of_flavor(flavor: FlavorSpec) -> Profile:
    """Of a server that is on its way to its host. What was learned is of no matter: it would count
    for or against those who come after it."""
    return _expected(flavor) or UNKNOWN


def _measured(server: str, hosts: Iterable[str], view: HostView) -> Profile | None:
    for host in hosts:
        digest = view.get(host)
        if digest is not None:
            number = digest.class_of(server)
            if number != wire.UNKNOWN_CLASS:
                return Profile(number, f"measured on {host}")
    return None


def _expected(flavor: FlavorSpec) -> Profile | None:
    return None if flavor.expects is None else Profile(flavor.expects, "as its flavor says")


def _of_group(spec: Any, view: HostView) -> Profile | None:
    marks = {wire.mark_of(uuid) for uuid in vp_of(spec) - {spec.instance_uuid}}
    hosts = hosts_of_group(spec) if marks else None
    digests = filter(None, map(view.get, hosts or ()))
    counts = Counter(number for digest in digests for number in _classes_of(marks, digest))
    return Profile(most_common(counts), "as others of its server group") if counts else None


def _classes_of(marks: set[bytes], digest: HostDigest) -> list[int]:
    # Old agents say no classes: zip() ends with the shorter one.
    both = zip(wire.split_marks(digest.known), digest.classes, strict=False)
    return [number for mark, number in both if mark in marks and number != wire.UNKNOWN_CLASS]


def _learned(flavor: str, image: str, learned: ProfileCache) -> Profile | None:
    number, source = learned.of_image(flavor, image), "as learned of its flavor and image"
    if number is None:
        number, source = learned.of_flavor(flavor), "as learned of its flavor"
    return None if number is None else Profile(wire.UNKNOWN_CLASS, source, number)


def hosts_left(spec: Any) -> list[str]:
    """Where a server that moves is now: Nova excludes that host, besides others it has tried."""
    return list(field_of(spec, "ignore_hosts") or ())


def vp_of(spec: Any) -> frozenset[str]:
    """The servers of its server group, itself included: they are one VP. Empty: it has no group."""
    group = field_of(spec, "instance_group")
    if group is None:
        return frozenset()
    return frozenset(field_of(group, "members") or ()) | {spec.instance_uuid}


def hosts_of_group(spec: Any) -> frozenset[str] | None:
    """Where its server group has members; None: Nova does not say."""
    hosts = field_of(field_of(spec, "instance_group"), "hosts")
    return None if hosts is None else frozenset(hosts)


def _image_of(spec: Any) -> str:
    """As the agents name it: empty for servers that boot from a volume."""
    return field_of(field_of(spec, "image"), "id") or ""


def field_of(thing: Any, name: str) -> Any:
    """A field of one of Nova's objects, if it is set."""
    return getattr(thing, name) if thing is not None and name in thing else None
