# SPDX-License-Identifier: Apache-2.0
"""Answers of /v1/policies and /v1/health."""

from nova_vp.core.types.policy import Mode
from nova_vp.service.health import Status
from vp_api.schemas.base import COUNT, TEXT, YES_NO, enum, list_of, obj

VALUE: dict[str, object] = {}
"""Of any type: options are numbers, texts, lists."""
POLICIES_ANSWER = obj(
    {
        "policies": obj(
            {
                "modes": obj({mode.value: COUNT for mode in Mode}),
                "options": list_of(
                    obj(
                        {
                            "group": TEXT,
                            "name": TEXT,
                            "value": VALUE,
                            "default": VALUE,
                            "help": TEXT,
                        },
                        title="Option",
                    )
                ),
                "rules": list_of(
                    obj({"name": TEXT, "check": TEXT, "is_default": YES_NO}, title="Rule")
                ),
            },
            title="Policies",
        )
    },
    title="PoliciesAnswer",
)
STATUS = enum(*(status.value for status in Status))
CHECKS = {"type": "object", "additionalProperties": obj({"status": STATUS, "detail": TEXT})}
HEALTH_ANSWER = obj(
    {"health": obj({"status": STATUS, "checks": CHECKS}, title="Health")}, title="HealthAnswer"
)
