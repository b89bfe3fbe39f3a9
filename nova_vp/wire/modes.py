# SPDX-License-Identifier: Apache-2.0
"""The modes that are set for the whole cloud and for host aggregates, as an agent is told."""

from nova_vp.wire.schema_types import COUNT, MODE, TEXT, VERSION, list_of, object_of

MODES = "vp_modes"
"""No topic of its own: an agent is told by `rpcapi.AgentAPI.tell_modes`."""

MAX_AGGREGATES = 1024
"""Which have a mode."""
MAX_MODES_BYTES = 512 * 1024

MODES_SCHEMA = object_of(
    {
        "v": {"const": VERSION},
        "version": COUNT,
        "aggregates": list_of(object_of({"name": TEXT, "mode": MODE}), MAX_AGGREGATES),
    },
    {"cloud": MODE},
)
"""All that are set; `cloud` is absent where no mode is set for the cloud. `version`: of two
messages the one with the larger number holds. Which aggregates a host is in, its agent knows by the
facts of Nova (`nova_vp.wire.facts`)."""
