# SPDX-License-Identifier: Apache-2.0
"""Queries and answers of /v1/profiles."""

from vp_api.schemas.base import COUNT, NAME, TEXT, list_of, obj, page_of, pages, sort

VP_CLASS = {"type": "integer", "minimum": 0, "maximum": 8}
"""As which newcomer it counts (`nova_vp.core.model.predict.newcomer_class`)."""
PROFILE = obj(
    {
        "id": TEXT,
        "flavor": TEXT,
        "image": TEXT,
        "projects_count": COUNT,
        "vps_count": COUNT,
        "vp_class": VP_CLASS,
        "classes": list_of(
            obj({"vp_class": VP_CLASS, "projects_count": COUNT, "vps_count": COUNT})
        ),
    },
    title="Profile",
)
LIST_QUERY = pages(flavor=NAME, image=NAME, sort=sort("flavor"))
LIST_ANSWER = page_of("profiles", PROFILE, "Profiles")
SHOW_ANSWER = obj({"profile": PROFILE}, title="ProfileAnswer")
