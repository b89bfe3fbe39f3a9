# SPDX-License-Identifier: Apache-2.0
"""What crosses processes: small versioned messages, their schemas, and nothing that sends them.

Two per host, never per VM. The *digest* is what nova-scheduler places by; the *report* is what
operators and tenants are shown. Both carry (epoch, sequence): the newest pair wins, so that a
restarted agent is heard and a late message is not. The rare *escalation* asks the cluster for help
and carries an id instead; *usage* is what servers are billed by, and carries amounts that only
grow. Receivers validate shape and size before use. A module for each message; whoever sends or
receives takes what it needs from here.
"""

from nova_vp.wire.codec import EXPIRE_S, compact, decode, encode
from nova_vp.wire.digest import (
    DIGEST_BYTES,
    DIGEST_SCHEMA,
    DIGEST_TOPIC,
    MAX_DIGEST_BYTES,
    pack_resources,
    resource_in,
)
from nova_vp.wire.errors import BadMessage
from nova_vp.wire.escalation import (
    AGENT_BUSY,
    ESCALATION_SCHEMA,
    ESCALATION_TOPIC,
    MAX_CANDIDATES,
    MAX_ESCALATION_BYTES,
    NO_LONGER_HURT,
)
from nova_vp.wire.facts import FACTS, FACTS_SCHEMA, MAX_FACTS_BYTES
from nova_vp.wire.fingerprints import (
    MARK_BYTES,
    NOWHERE,
    SEVERAL,
    STRICT_SEAT,
    mark_of,
    marks_of,
    pack_classes,
    pack_known,
    pack_seats,
    seat_of,
    split_marks,
    unpack_classes,
    unpack_known,
    unpack_seats,
)
from nova_vp.wire.host_keys import HOST_KEYS, HOST_KEYS_SCHEMA, MAX_HOST_KEYS
from nova_vp.wire.latency import LATENCY, LATENCY_SCHEMA, MAX_LATENCY_BYTES
from nova_vp.wire.modes import MAX_AGGREGATES, MAX_MODES_BYTES, MODES, MODES_SCHEMA
from nova_vp.wire.overlays import (
    MAX_OVERLAY_ANSWER_BYTES,
    MAX_OVERLAY_CALL_BYTES,
    MAX_OVERLAYS_BYTES,
    MOST_CPUS,
    MOST_LEASE_S,
    OVERLAY_ANSWER,
    OVERLAY_ANSWER_SCHEMA,
    OVERLAY_CALL,
    OVERLAY_CALL_SCHEMA,
    OVERLAYS,
    OVERLAYS_SCHEMA,
)
from nova_vp.wire.overrides import MAX_OVERRIDES_BYTES, OVERRIDES, OVERRIDES_SCHEMA
from nova_vp.wire.profiles import MAX_LEARNED, MAX_PROFILES_BYTES, PROFILES, PROFILES_SCHEMA
from nova_vp.wire.report import CPU_RATIOS, MAX_REPORT_BYTES, REPORT_SCHEMA, REPORT_TOPIC
from nova_vp.wire.schema_types import (
    LEAST_LATENCY_MS,
    LEAST_PERCENTILE,
    MAX_PRIORITY,
    MAX_SERVERS,
    MOST_COUNT,
    MOST_LATENCY_MS,
    MOST_LOAD,
    MOST_NUMBER,
    MOST_PERCENTILE,
    PREDICT_CLASSES,
    UNKNOWN_CLASS,
    VERSION,
    is_host_name,
)
from nova_vp.wire.usage import (
    HOUR_S,
    MAX_USAGE_BYTES,
    MAX_USAGE_RECORDS,
    USAGE_SCHEMA,
    USAGE_TOPIC,
)
from nova_vp.wire.version import MessageVersion, version_of

AGENT_TOPIC = "vp_agent"
ANSWER_TOPIC = "vp_answer"

__all__ = [
    "AGENT_BUSY",
    "AGENT_TOPIC",
    "ANSWER_TOPIC",
    "CPU_RATIOS",
    "DIGEST_BYTES",
    "DIGEST_SCHEMA",
    "DIGEST_TOPIC",
    "ESCALATION_SCHEMA",
    "ESCALATION_TOPIC",
    "EXPIRE_S",
    "FACTS",
    "FACTS_SCHEMA",
    "HOST_KEYS",
    "HOST_KEYS_SCHEMA",
    "HOUR_S",
    "LATENCY",
    "LATENCY_SCHEMA",
    "LEAST_LATENCY_MS",
    "LEAST_PERCENTILE",
    "MARK_BYTES",
    "MAX_AGGREGATES",
    "MAX_CANDIDATES",
    "MAX_DIGEST_BYTES",
    "MAX_ESCALATION_BYTES",
    "MAX_FACTS_BYTES",
    "MAX_HOST_KEYS",
    "MAX_LATENCY_BYTES",
    "MAX_LEARNED",
    "MAX_MODES_BYTES",
    "MAX_OVERLAYS_BYTES",
    "MAX_OVERLAY_ANSWER_BYTES",
    "MAX_OVERLAY_CALL_BYTES",
    "MAX_OVERRIDES_BYTES",
    "MAX_PRIORITY",
    "MAX_PROFILES_BYTES",
    "MAX_REPORT_BYTES",
    "MAX_SERVERS",
    "MAX_USAGE_BYTES",
    "MAX_USAGE_RECORDS",
    "MODES",
    "MODES_SCHEMA",
    "MOST_COUNT",
    "MOST_CPUS",
    "MOST_LATENCY_MS",
    "MOST_LEASE_S",
    "MOST_LOAD",
    "MOST_NUMBER",
    "MOST_PERCENTILE",
    "NOWHERE",
    "NO_LONGER_HURT",
    "OVERLAYS",
    "OVERLAYS_SCHEMA",
    "OVERLAY_ANSWER",
    "OVERLAY_ANSWER_SCHEMA",
    "OVERLAY_CALL",
    "OVERLAY_CALL_SCHEMA",
    "OVERRIDES",
    "OVERRIDES_SCHEMA",
    "PREDICT_CLASSES",
    "PROFILES",
    "PROFILES_SCHEMA",
    "REPORT_SCHEMA",
    "REPORT_TOPIC",
    "SEVERAL",
    "STRICT_SEAT",
    "UNKNOWN_CLASS",
    "USAGE_SCHEMA",
    "USAGE_TOPIC",
    "VERSION",
    "BadMessage",
    "MessageVersion",
    "compact",
    "decode",
    "encode",
    "is_host_name",
    "mark_of",
    "marks_of",
    "pack_classes",
    "pack_known",
    "pack_resources",
    "pack_seats",
    "resource_in",
    "seat_of",
    "split_marks",
    "unpack_classes",
    "unpack_known",
    "unpack_seats",
    "version_of",
]
