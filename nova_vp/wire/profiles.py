# SPDX-License-Identifier: Apache-2.0
"""The learned profiles: what servers nobody has measured are taken to be like."""

from nova_vp.wire.schema_types import NUMBER, TEXT, VERSION, list_of, object_of
from nova_vp.wire.validation import nullable

PROFILES = "vp_profiles"
"""No topic of its own: it goes where the digests go."""
MAX_PROFILES_BYTES = 1024 * 1024
MAX_LEARNED = 2000
"""Entries of one message: those that most projects vote on."""

PROFILES_SCHEMA = object_of(
    {
        "v": {"const": VERSION},
        "sent": NUMBER,
        "learned": list_of(
            {
                "type": "array",
                "items": [TEXT, nullable(TEXT), {"type": "integer", "minimum": 0, "maximum": 8}],
                "additionalItems": False,
                "minItems": 3,
            },
            MAX_LEARNED,
        ),
    }
)
"""What servers of a flavor and an image were measured to be like, for those nobody has measured.
`learned`: flavor name, image UUID (empty: servers that boot from a volume; null: whatever the
image), newcomer class (`nova_vp.core.model.predict.newcomer_class`). `sent`: the sender's seconds
since the Unix epoch."""
