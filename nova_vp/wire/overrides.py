# SPDX-License-Identifier: Apache-2.0
"""What people have overridden of single servers, as an agent is told."""

from nova_vp.wire.schema_types import (
    COUNT,
    MAX_SERVERS,
    OVERRIDE,
    UUID,
    VERSION,
    list_of,
    object_of,
)

OVERRIDES = "vp_overrides"
"""No topic of its own: an agent is told by `rpcapi.AgentAPI.set_overrides`."""

MAX_OVERRIDES_BYTES = 1024 * 1024

OVERRIDES_SCHEMA = object_of(
    {
        "v": {"const": VERSION},
        "version": COUNT,
        "servers": list_of(object_of({"uuid": UUID}, OVERRIDE["properties"]), MAX_SERVERS),
    }
)
"""All that people have overridden of the servers named; a field that is absent is not overridden,
and a server with no other field is free of overrides. `version`: of two messages that name a
server, the one with the larger number holds."""
