# SPDX-License-Identifier: Apache-2.0
"""How much of the modelled last-level caches each guest of a host holds: what Cache Monitoring
Technology reports on hardware, counted in the tags that the software PMU shares.
"""

import struct
from collections import Counter
from pathlib import Path

from testbed.lab import cloud

LINE_BYTES = 64
VM_ID_AT, NAME_AT, NAME_BYTES = 28, 128, 256
LLC_HEADER = struct.Struct("<QIIIII")
"""magic, version, header bytes, sets, ways, sample"""


def read(host: str) -> dict[str, int]:
    """Bytes by libvirt's name of the guest."""
    return held_in(Path(f"/proc/{cloud.host_pid(host)}/root/run/vpmu"))


def held_in(folder: Path) -> dict[str, int]:
    held: Counter[int] = Counter()
    for path in folder.glob("llc.*"):
        held.update(_held(path.read_bytes()))
    return {name: held[vm_id] for vm_id, name in _guests(folder)}


def _held(llc: bytes) -> Counter[int]:
    _, _, header_bytes, sets, ways, sample = LLC_HEADER.unpack_from(llc)
    owners = llc[header_bytes + 3 : header_bytes + 4 * sets * ways : 4]  # the tags' top bytes
    return Counter({owner: n * LINE_BYTES * sample for owner, n in Counter(owners).items()})


def _guests(folder: Path) -> list[tuple[int, str]]:
    found = []
    for path in folder.glob("vm.*"):
        header = path.read_bytes()[: NAME_AT + NAME_BYTES]
        if len(header) == NAME_AT + NAME_BYTES:
            [vm_id] = struct.unpack_from("<I", header, VM_ID_AT)
            name = header[NAME_AT:].split(b"\0")[0].decode()
            found.append((vm_id, name))
    return found
