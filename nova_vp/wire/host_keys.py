# SPDX-License-Identifier: Apache-2.0
"""The agents' public keys, for schedulers that have no database of ours."""

from nova_vp.wire.schema_types import HOST_NAME, NUMBER, VERSION, list_of, object_of

HOST_KEYS = "vp_host_keys"
"""No topic of its own: it goes where the digests go."""
MAX_HOST_KEYS_BYTES = 4 * 1024 * 1024
MAX_HOST_KEYS = 40_000
"""Two of each host while keys are rotated, in the largest cloud that a scheduler keeps in view."""

HOST_KEYS_SCHEMA = object_of(
    {
        "v": {"const": VERSION},
        "sent": NUMBER,
        "keys": list_of(
            {
                "type": "array",
                "items": [HOST_NAME, {"type": "string", "pattern": r"\A[A-Za-z0-9+/]{43}=\Z"}],
                "additionalItems": False,
                "minItems": 2,
            },
            MAX_HOST_KEYS,
        ),
    }
)
"""`keys`: host name, Ed25519 public key in Base64; all that are in use. `sent`: the sender's
seconds since the Unix epoch."""
