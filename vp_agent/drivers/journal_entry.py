# SPDX-License-Identifier: Apache-2.0
"""One journal entry as an XML element in a guest's libvirt metadata: to text, and carefully back.

Anybody who may talk to libvirt can have written it, and a migration brings entries of other hosts:
what cannot be understood becomes an entry of epoch 0 that asks for Nova's own bound.
"""

import xml.etree.ElementTree as ET
from xml.sax.saxutils import quoteattr

from nova_vp.core.model import Applied
from vp_agent.drivers.cpuset import format_cpus, parse_cpus

NAMESPACE = "urn:nova-vp:1"
"""The migrate hook (`vp_agent/hooks`) knows it too."""
PREFIX = "vp"
TAG = f"{{{NAMESPACE}}}placed"
UNREADABLE = "unreadable-journal"
NEVER = 0
"""No run of an agent has this epoch, so its entry is undone on sight."""
_MAX_TEXT = 255


def format_entry(applied: Applied) -> str:
    """The element without its namespace declaration: libvirt adds that itself."""
    return (
        f"<placed cpus={quoteattr(format_cpus(applied.cpus))}"
        f" original={quoteattr(format_cpus(applied.original_cpus))}"
        f" controller={quoteattr(applied.controller)} action={quoteattr(applied.action_id)}"
        f" epoch={quoteattr(str(applied.epoch))}/>"
    )


def parse_entry(element: ET.Element, guest_uuid: str, bound: frozenset[int]) -> Applied:
    """`original_cpus` never reach beyond `bound`, whoever wrote them."""
    attributes = element.attrib
    try:
        cpus = parse_cpus(attributes["cpus"])
        original = parse_cpus(attributes["original"])
        epoch = int(attributes["epoch"])
        texts = attributes["controller"], attributes["action"]
        if not cpus or not original or epoch <= NEVER or max(map(len, texts)) > _MAX_TEXT:
            raise ValueError("empty or oversized")
    except (KeyError, ValueError):
        return unreadable(guest_uuid, bound)
    return Applied(
        guest_uuid=guest_uuid,
        cpus=cpus,
        original_cpus=original if original <= bound else bound,
        controller=texts[0],
        action_id=texts[1],
        epoch=epoch,
    )


def unreadable(guest_uuid: str, bound: frozenset[int]) -> Applied:
    return Applied(
        guest_uuid=guest_uuid,
        cpus=bound,
        original_cpus=bound,
        controller=UNREADABLE,
        action_id="",
        epoch=NEVER,
    )
