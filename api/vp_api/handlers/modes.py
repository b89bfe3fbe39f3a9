# SPDX-License-Identifier: Apache-2.0
"""The modes that are set for the cloud and for host aggregates.

vp-scheduler brings them to the agents: an answer means that they are stored. What holds for a host,
and where that is set, is told with the host.
"""

from typing import Any

from oslo_log import log as logging

from nova_vp.core.types.mode_levels import ModeLevel
from nova_vp.core.types.policy import Mode
from nova_vp.db.modes import StoredMode, TooManyAggregates
from vp_api.errors import ApiError, Code
from vp_api.operation import Answer, Call
from vp_api.views import values

LOG = logging.getLogger(__name__)


def list_modes(call: Call) -> Answer:
    modes = call.services.stored.modes
    hosts = modes.count_hosts_by_source()
    return {"modes": [_told(one, hosts) for one in modes.list_modes()]}


def _told(one: StoredMode, hosts: dict[str, int]) -> dict[str, Any]:
    source = f"{one.level.value}:{one.name}" if one.name else one.level.value
    return {
        "level": one.level.value,
        "name": one.name,
        "mode": one.mode.value,
        "hosts_count": hosts.get(source, 0),
        "by": one.by,
        "at": values.iso_datetime(one.at),
    }


def set_cloud_mode(call: Call) -> Answer:
    return _set(call, ModeLevel.CLOUD, "")


def set_aggregate_mode(call: Call) -> Answer:
    """Its name is in the body: it may have a slash, which no path can."""
    return _set(call, ModeLevel.AGGREGATE, call.body["aggregate"])


def _set(call: Call, level: ModeLevel, name: str) -> Answer:
    mode = call.body["mode"]
    try:
        call.services.stored.modes.put(
            level,
            name,
            mode and Mode(mode),
            by=call.user_id,
            at=call.services.clock(),
        )
    except TooManyAggregates as exc:
        raise ApiError(
            Code.BAD_REQUEST,
            f"{exc} aggregates have a mode, and no more can have one. Unset one of them first.",
        ) from exc
    LOG.info("level=%s name=%s mode=%s set by user=%s", level.value, name, mode, call.user_id)
    return {"mode": {"level": level.value, "name": name, "mode": mode}}
