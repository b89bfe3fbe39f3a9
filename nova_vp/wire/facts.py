# SPDX-License-Identifier: Apache-2.0
"""What Nova knows of a host and its servers, as its agent is told."""

from nova_vp.wire.schema_types import MAX_SERVERS, NUMBER, TEXT, UUID, VERSION, list_of, object_of

FACTS = "vp_facts"
"""No topic of its own: an agent is told by `rpcapi.AgentAPI.tell_facts`."""

MAX_FACTS_BYTES = 1024 * 1024

_GROUP = object_of({"id": UUID, "policy": TEXT, "members": list_of(UUID, MAX_SERVERS)})

_SERVER = object_of(
    {
        "uuid": UUID,
        "specs": {"type": "object", "additionalProperties": TEXT, "maxProperties": 64},
    }
)

FACTS_SCHEMA = object_of(
    {
        "v": {"const": VERSION},
        "read_at": NUMBER,
        "aggregates": list_of(TEXT, 256),
        "groups": list_of(_GROUP, MAX_SERVERS),
        "servers": list_of(_SERVER, MAX_SERVERS),
    }
)
"""`read_at`: when Nova was asked, in seconds since 1970; of two messages the newer one holds.
`aggregates`: names of those that the host is in. `groups`: server groups of its servers, with all
members, wherever these run. `servers`: those whose flavor has `vp:` extra specs, with these."""
