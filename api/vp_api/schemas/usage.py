# SPDX-License-Identifier: Apache-2.0
"""Query and answers of /v1/usage."""

from vp_api.schemas.base import (
    NAME,
    NUMBER,
    NUMBERS,
    TEXT,
    TIME,
    list_of,
    nullable,
    obj,
    page_of,
    pages,
    sort,
)

_USAGE = {
    "server_id": TEXT,
    "name": nullable(TEXT),
    "project_id": TEXT,
    "booked_s": NUMBER,
    "over_s": NUMBER,
    "permit_misses": NUMBER,
    "pollution_misses": NUMBER,
    "cpu_taken_core_s": NUMBER,
}
USAGE = obj(
    {**_USAGE, "hosts": list_of(TEXT), "sure_misses": NUMBER, "attributed_misses": NUMBERS},
    title="Usage",
)
TENANTS = obj(_USAGE, title="TenantUsage")
LIST_QUERY = pages(
    project_id=NAME,
    server_id=NAME,
    start=TIME,
    end=TIME,
    sort=sort("server_id", "project_id"),
)
LIST_ANSWER = page_of("usage", USAGE, "UsageList")
TENANT_LIST_ANSWER = page_of("usage", TENANTS, "TenantUsageList")
