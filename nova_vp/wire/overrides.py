# SPDX-License-Identifier: Apache-2.0
"""What people have ordered of single servers, as an agent is told."""

from nova_vp.wire.schema_types import COUNT, MAX_SERVERS, ORDERED, UUID, VERSION, list_of, object_of

ORDERS = "vp_orders"
"""No topic of its own: an agent is told by `rpcapi.AgentAPI.set_orders`."""

MAX_ORDERS_BYTES = 1024 * 1024

ORDERS_SCHEMA = object_of(
    {
        "v": {"const": VERSION},
        "version": COUNT,
        "servers": list_of(object_of({"uuid": UUID}, ORDERED["properties"]), MAX_SERVERS),
    }
)
"""All that people have ordered of the servers named; a field that is absent is not ordered, and a
server with no other field is free of orders. `version`: of two messages that name a server, the one
with the larger number holds."""
