# SPDX-License-Identifier: Apache-2.0
"""The public keys of everybody on the bus."""

from datetime import datetime

from sqlalchemy import DateTime
from sqlalchemy.orm import Mapped, mapped_column

from nova_vp.db.models.base import KEY, NAME, Base


class BusKeyRow(Base):
    """A public key that somebody on the bus signs with, or has signed with."""

    __tablename__ = "bus_keys"

    sender: Mapped[str] = mapped_column(NAME, primary_key=True)
    """As `vp-agent/HOST`: `nova_vp.signing.senders`."""
    public_key: Mapped[str] = mapped_column(KEY, primary_key=True)
    """32 bytes of Ed25519, Base64."""
    created_at: Mapped[datetime] = mapped_column(DateTime)
    retired_at: Mapped[datetime | None] = mapped_column(DateTime)
    """UTC; None: in use."""
