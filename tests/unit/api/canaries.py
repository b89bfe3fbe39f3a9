# SPDX-License-Identifier: Apache-2.0
"""A host's report full of values that stand nowhere else; a tenant is told its own alone."""

import copy
import json
import random
import uuid
from datetime import UTC, datetime

from nova_vp import wire
from nova_vp.wire import CPU_RATIOS
from tests.unit.api import cloud
from vp_api.schemas.history import TENANT_METRICS

OWN_NAME = "shop-web-1"
"""Of the one server of this report that is a tenant's own, `cloud.VICTIM`."""
DIGITS_OF_HISTORY = 4
MOMENTS = ("at", "settled_at", "since", "until")


class Canaries:
    """Replaces leaves by values that stand nowhere else, valid by the report's schema."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self.planted: list[str] = []
        self.verbatim: list[str] = []
        """Those that an operator is told as they stand: moments are told as dates."""

    def plant(self, value, at=(), *, kept):
        if isinstance(value, dict):
            return {k: self.plant(v, (*at, k), kept=kept) for k, v in value.items()}
        if isinstance(value, list):
            return [self.plant(v, (*at, n), kept=kept) for n, v in enumerate(value)]
        if kept(at) or value is None or isinstance(value, bool):
            return value
        canary = self._like(value)
        word = str(canary)
        if not isinstance(canary, str):
            # What is left of it once somebody has rounded it.
            word = str(int(canary))
            self.planted.append(str(int(float(f"{canary:.{DIGITS_OF_HISTORY}g}"))))
        self.planted.append(word)
        if at[-1] in MOMENTS:
            self.planted.append(_minute_of(canary))
        elif at[-1] not in ("epoch", "seq"):
            self.verbatim.append(word)
        return canary

    def _like(self, value):
        if isinstance(value, int):
            return self._random.randrange(10**8, 10**9)
        if isinstance(value, float):
            return self._random.randrange(10**8, 10**9) + 0.5
        if len(value) == 36 and value.count("-") == 4:
            return str(uuid.UUID(int=self._random.getrandbits(128), version=4))
        return f"canary-{self._random.getrandbits(64):016x}"


def _minute_of(moment_s):
    return datetime.fromtimestamp(moment_s, UTC).strftime("%Y-%m-%dT%H:%M")


ENUMS = {"mode", "isolation", "sensitivity", "kind", "v", "credit_ratio"}
"""Fields in which the schema has no room for anything else."""
OWN = {
    *(("uuid",), ("name",), ("project_id",), ("group",), ("state",), ("since",)),
    *(("actions", number, "at") for number in (0, 1, 3, 4)),
    *(("actions", 0, "victim"), ("actions", 1, "uuid"), ("actions", 3, "changes", 0, "uuid")),
    ("actions", 4, "on_behalf_of"),
    *(("interference", name) for name in ("since", "loss_ratio")),
    *(("metrics", name) for name in TENANT_METRICS),
    *(("cpu_use", name) for name in CPU_RATIOS),
}
"""Within the tenant's own VP: what the tenant is told, or what makes an action concern it."""


def kept(at):
    if ENUMS & set(at):
        return True
    return at[:2] == ("vps", 0) and at[2:] in OWN


def a_full_report():
    hurt = {
        "kind": "cache",
        "since": cloud.NOW_S,
        "suspects": [{"uuid": cloud.NOISY, "rise_per_s": 1.5e6}],
        "refused": [cloud.refused(hurt_ratio=0.25)],
    }
    room = {"uuid": cloud.VICTIM, "knob": "cpu-cap", "from": "x", "to": "y", "until": cloud.NOW_S}
    own = cloud.a_vp(
        name=OWN_NAME,
        interference=hurt,
        unmanaged="changed-by-somebody-else",
        unmanaged_detail="who",
        incomplete="late",
        actions=[
            cloud.an_action(),
            cloud.an_action(uuid=cloud.VICTIM, victim=cloud.NOISY),
            cloud.an_action(uuid=cloud.NOISY, victim=cloud.GONE),
            cloud.an_action(uuid=cloud.NOISY, victim=cloud.GONE, changes=[room]),
            cloud.an_action(uuid=cloud.NOISY, victim=None, on_behalf_of=cloud.VICTIM),
        ],
        figures={"of_nobody": {"seen_per_s": 1.5, "by": "a neighbour"}},
        **cloud.asked("shop", memory_obstacle="vfio"),
    )
    other = cloud.a_vp(
        uuid=cloud.NOISY,
        name="noisy",
        project_id=cloud.BETA,
        actions=[cloud.an_action()],
        interference=copy.deepcopy(hurt),
        state=None,
        unmanaged="realtime",
        **cloud.asked("shop"),
    )
    return cloud.a_report(
        "lab-1",
        vps=[own, other],
        proposals=[cloud.an_action(), cloud.a_cap()],
        **cloud.islands(cap_cpus=None),
        **cloud.under_way(),
    )


def a_record_of_canaries(canaries, age_s):
    report = canaries.plant(a_full_report(), kept=kept)
    changes = {key: value for key, value in report.items() if key != "host"}
    record = cloud.a_record(report["host"], age_s=age_s, **changes)
    wire.decode(wire.REPORT_TOPIC, json.dumps(record.report))
    return record
