# SPDX-License-Identifier: Apache-2.0
"""What servers of a flavor and an image were measured to be like while nobody disturbed them."""

import base64
import binascii
import json
from dataclasses import replace

from nova_vp.db.paging import Page
from nova_vp.db.records import ClassesOf
from nova_vp.newcomer_class import median_class
from vp_api import paging
from vp_api.errors import ApiError, Code
from vp_api.operation import Answer, Call


def list_profiles(call: Call) -> Answer:
    page = paging.page_of(call, "flavor:asc")
    if page.marker and (pair := _pair(page.marker)):
        page = replace(page, marker=json.dumps(pair))
    found = call.services.stored.browser.list_profiles(
        call.query.get("flavor"), call.query.get("image"), page
    )
    return paging.answer(call, "profiles", [_told(one) for one in found.items], found.marker)


def show_profile(call: Call, profile_id: str) -> Answer:
    pair = _pair(profile_id)
    if pair is not None:
        flavor, image = pair
        page = Page("flavor", limit=1)
        found = call.services.stored.browser.list_profiles(flavor, image, page)
        if found.items:
            return {"profile": _told(found.items[0])}
    raise ApiError(
        Code.PROFILE_NOT_FOUND,
        f"There is no profile '{profile_id}'. `openstack vp profile list` lists the known "
        "profiles.",
    )


def _told(one: ClassesOf) -> dict[str, object]:
    counts = sorted(one.counts, key=lambda count: count.vp_class)
    return {
        "id": _id(one.flavor, one.image),
        "flavor": one.flavor,
        "image": one.image,
        "projects_count": sum(count.projects for count in counts),
        "vps_count": sum(count.vps for count in counts),
        "vp_class": median_class({count.vp_class: count.projects for count in counts}),
        "classes": [
            {
                "vp_class": count.vp_class,
                "projects_count": count.projects,
                "vps_count": count.vps,
            }
            for count in counts
        ],
    }


def _id(flavor: str, image: str) -> str:
    """A name that an URL can have: those of flavors may contain anything."""
    return base64.urlsafe_b64encode(f"{image}\0{flavor}".encode()).decode().rstrip("=")


def _pair(profile_id: str) -> tuple[str, str] | None:
    try:
        told = base64.urlsafe_b64decode(profile_id + "=" * (-len(profile_id) % 4)).decode()
    except (binascii.Error, ValueError):
        return None
    image, separator, flavor = told.partition("\0")
    return (flavor, image) if separator and "\0" not in flavor else None
