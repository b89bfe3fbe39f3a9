# SPDX-License-Identifier: Apache-2.0
"""Bodies and answers of /v1/modes, and where a mode comes from."""

from nova_vp.core.types.mode_levels import ModeLevel
from vp_api.schemas.base import (
    COUNT,
    END,
    MODE,
    NAME,
    NOT_STORED,
    TEXT,
    TIME,
    enum,
    list_of,
    nullable,
    obj,
)

LEVEL = enum(*(level.value for level in ModeLevel))
SOURCE = obj({"level": LEVEL, "name": TEXT}, title="ModeSource")
"""`name`: of the aggregate, else empty."""
SET_MODE = obj({"level": LEVEL, "name": TEXT, "mode": MODE}, title="SetMode")
EFFECTIVE = obj({"mode": MODE, "source": SOURCE}, title="EffectiveMode")

LIST_ANSWER = obj(
    {
        "modes": list_of(
            obj(
                {
                    "level": LEVEL,
                    "name": TEXT,
                    "mode": MODE,
                    "hosts_count": COUNT,
                    "by": TEXT,
                    "at": TIME,
                },
                title="StoredMode",
            )
        )
    },
    title="Modes",
)
"""`hosts_count`: hosts whose mode comes from there, by their last reports."""
CHANGE = obj({"mode": nullable(MODE)}, title="ModeChange")
AGGREGATE = {**NAME, "pattern": f"^(?! )[^{NOT_STORED}]+(?<! ){END}"}
"""As Nova has it: without spaces around it, which MariaDB ignores where it compares."""
CHANGE_OF_AGGREGATE = obj(
    {"aggregate": AGGREGATE, "mode": nullable(MODE)}, title="AggregateModeChange"
)
CHANGE_ANSWER = obj(
    {"mode": obj({"level": LEVEL, "name": TEXT, "mode": nullable(MODE)}, title="ChangedMode")},
    title="ModeAnswer",
)
