# SPDX-License-Identifier: Apache-2.0
"""The digest, which nova-scheduler places by: one of each host for each scheduler process.

It stays small; what does not decide a placement is left out.
"""

from collections.abc import Sequence

from nova_vp.core.types.detection import Kind
from nova_vp.wire.schema_types import COUNT, HEAD, PREDICT_CLASSES, list_of, object_of

DIGEST_TOPIC = "vp_digest"
DIGEST_BYTES = 1024
"""What a sender keeps a digest below, by leaving out LLC domains."""
MAX_DIGEST_BYTES = 4096
"""What a receiver takes: a host with very many servers needs more for `known`."""

RESOURCES = (None, Kind.CACHE, Kind.CONTROLLER, Kind.LINK, Kind.REMOTE, Kind.CPU)
"""By the code that stands for each, of three bits: a new one goes to the end."""
_BITS = 3

_PERMILLE = {
    "type": "array",
    "items": {"type": "integer", "minimum": 0, "maximum": 1000},
    "minItems": PREDICT_CLASSES,
    "maxItems": PREDICT_CLASSES,
}

DIGEST_DOMAIN = object_of(
    {
        "id": COUNT,
        "free_mcores": COUNT,
        "cpus": COUNT,
        "vcpus": COUNT,
        "newcomer": _PERMILLE,
        "resident": _PERMILLE,
        "strict": _PERMILLE,
    },
    {"resources": COUNT},
)

DIGEST_SCHEMA = object_of(
    {
        **HEAD,
        "homing": {"type": "boolean"},
        "age_ms": COUNT,
        "domains": list_of(DIGEST_DOMAIN, 64),
        "known": {"type": "string", "maxLength": MAX_DIGEST_BYTES},
    },
    {
        "classes": {"type": "string", "maxLength": MAX_DIGEST_BYTES},
        "seats": {"type": "string", "maxLength": MAX_DIGEST_BYTES},
        "permits": list_of(COUNT, 64),
        "service": list_of(COUNT, 3),
        "starved": {"type": "string", "maxLength": MAX_DIGEST_BYTES},
    },
)
"""`known`: servers of this host that the numbers have counted, or that do not run (`pack_known`).
`classes`: as which newcomer each of them would count elsewhere (`pack_classes`).
`seats`: in which LLC domain each lives, and who is strict (`pack_seats`).
`permits`: LLC misses per ms that servers have booked in each LLC domain of the host, in the order
of their ids, those too that `domains` leaves out; absent: none, or the agent does not say.
`service`: what servers of either `vp:class` find: milli-cores for all best-effort servers together,
vCPUs of those that are here, milli-cores that nobody but them uses. Empty: no controller serves
classes. Absent: the agent does not say, or could not in that tick.
`starved`: projects whose latency-critical servers are not protected there (`pack_known`).
`age_ms`: how old the numbers were when they left. `homing`: newcomers get one LLC domain each.
`domains[].newcomer` / `.resident` / `.strict`: `predict` per newcomer class, in thousandths of
performance lost by the newcomer, by the worst resident and by the worst strict resident, to all
resources together. `domains[].resources`: the one that costs most (`pack_resources`); absent: the
agent does not say. Receivers are upgraded before agents, which send it."""


def pack_resources(resources: Sequence[Kind | None]) -> int:
    """Of each newcomer class in turn, the lowest bits for the first; None: nothing is lost."""
    codes = (RESOURCES.index(one) << number * _BITS for number, one in enumerate(resources))
    return sum(codes)


def resource_in(packed: int, newcomer_class: int) -> Kind | None:
    """None also for one that only a later release can name."""
    code = packed >> newcomer_class * _BITS & (1 << _BITS) - 1
    return RESOURCES[code] if code < len(RESOURCES) else None
