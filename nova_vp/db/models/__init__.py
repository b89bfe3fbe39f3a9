# SPDX-License-Identifier: Apache-2.0
"""Tables, and nothing that reads or writes them. A module for each kind; whoever reads or writes
them takes what it needs from here."""

from nova_vp.db.models.base import Base
from nova_vp.db.models.bus_keys import BusKeyRow
from nova_vp.db.models.escalations import EscalationGate, EscalationRow, MigrationRow
from nova_vp.db.models.overrides import (
    ModeRow,
    OverlayRow,
    OverlayServer,
    OverrideChange,
    ServerOverrideRow,
    VersionGate,
)
from nova_vp.db.models.reports import (
    ActionServer,
    History,
    Host,
    Profile,
    Stay,
    StoredAction,
    VpRow,
)
from nova_vp.db.models.usage import ServerSighting, UsageRow

__all__ = [
    "ActionServer",
    "Base",
    "BusKeyRow",
    "EscalationGate",
    "EscalationRow",
    "History",
    "Host",
    "MigrationRow",
    "ModeRow",
    "OverlayRow",
    "OverlayServer",
    "OverrideChange",
    "Profile",
    "ServerOverrideRow",
    "ServerSighting",
    "Stay",
    "StoredAction",
    "UsageRow",
    "VersionGate",
    "VpRow",
]
