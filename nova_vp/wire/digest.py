# SPDX-License-Identifier: Apache-2.0
"""The digest, which nova-scheduler places by: one of each host for each scheduler process.

It stays small; what does not decide a placement is left out.
"""

from nova_vp.wire.schema_types import COUNT, HEAD, PREDICT_CLASSES, list_of, object_of

DIGEST_TOPIC = "vp_digest"
DIGEST_BYTES = 1024
"""What a sender keeps a digest below, by leaving out LLC domains."""
MAX_DIGEST_BYTES = 4096
"""What a receiver takes: a host with very many servers needs more for `known`."""

_PERMILLE = {
    "type": "array",
    "items": {"type": "integer", "minimum": 0, "maximum": 1000},
    "minItems": PREDICT_CLASSES,
    "maxItems": PREDICT_CLASSES,
}

DIGEST_SCHEMA = object_of(
    {
        **HEAD,
        "homing": {"type": "boolean"},
        "age_ms": COUNT,
        "domains": list_of(
            object_of(
                {
                    "id": COUNT,
                    "free_mcores": COUNT,
                    "cpus": COUNT,
                    "vcpus": COUNT,
                    "newcomer": _PERMILLE,
                    "resident": _PERMILLE,
                    "strict": _PERMILLE,
                }
            ),
            64,
        ),
        "known": {"type": "string", "maxLength": MAX_DIGEST_BYTES},
    },
    {
        "classes": {"type": "string", "maxLength": MAX_DIGEST_BYTES},
        "seats": {"type": "string", "maxLength": MAX_DIGEST_BYTES},
    },
)
"""`known`: servers of this host that the numbers have counted, or that do not run (`pack_known`).
`classes`: as which newcomer each of them would count elsewhere (`pack_classes`).
`seats`: in which LLC domain each lives, and who is strict (`pack_seats`).
`age_ms`: how old the numbers were when they left. `homing`: newcomers get one LLC domain each.
`domains[].newcomer` / `.resident` / `.strict`: `predict` per newcomer class, in thousandths of
performance lost by the newcomer, by the worst resident and by the worst strict resident."""
