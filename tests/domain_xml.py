# SPDX-License-Identifier: Apache-2.0
"""Domain XML as Nova 34 writes it, cut down to a guest without devices. A builder for tests."""

import uuid as uuids
from collections.abc import Mapping
from pathlib import Path
from xml.sax.saxutils import escape, quoteattr

NOVA_NS = "http://openstack.org/xmlns/libvirt/nova/1.1"
PROJECT_ID = "0123456789abcdef0123456789abcdef"


def nova_metadata(
    name: str = "web",
    flavor: str = "m1.small",
    extra_specs: Mapping[str, str] | None = None,
    project_id: str = PROJECT_ID,
) -> str:
    specs = "".join(
        f"<nova:extraSpec name={quoteattr(key)}>{escape(value)}</nova:extraSpec>"
        for key, value in (extra_specs or {}).items()
    )
    return f"""\
<nova:instance xmlns:nova="{NOVA_NS}">
  <nova:package version="34.0.0"/>
  <nova:name>{escape(name)}</nova:name>
  <nova:creationTime>2026-11-21 02:00:00</nova:creationTime>
  <nova:flavor name={quoteattr(flavor)} id="11111111-2222-3333-4444-555555555555">
    <nova:memory>16</nova:memory>
    <nova:vcpus>2</nova:vcpus>
    <nova:extraSpecs>{specs}</nova:extraSpecs>
  </nova:flavor>
  <nova:owner>
    <nova:user uuid="fedcba9876543210fedcba9876543210">demo</nova:user>
    <nova:project uuid="{project_id}">demo</nova:project>
  </nova:owner>
</nova:instance>"""


def a_domain(
    name: str = "instance-00000001",
    *,
    uuid: str | None = None,
    vcpus: int = 2,
    maximum: int | None = None,
    cpuset: str | None = "0-1",
    metadata: str | None = None,
    body: str = "",
    memory_mib: int = 16,
    firmware: Path | None = None,
    boot: str = "",
    devices: str = "",
) -> str:
    """`metadata`: what stands in <metadata>, Nova's own if None. `maximum`: of vCPUs that can be
    plugged in. `body`, `boot`, `devices`: further elements, of the domain, its <os> and its
    <devices>. `firmware`: instead of SeaBIOS, whose waiting costs 0.6 % of a CPU; see
    `write_halting`."""
    bound = f" cpuset={quoteattr(cpuset)}" if cpuset else ""
    loader = f'<loader type="rom">{escape(str(firmware))}</loader>' if firmware else ""
    return f"""\
<domain type="qemu">
  <name>{name}</name>
  <uuid>{uuid or uuids.uuid4()}</uuid>
  <metadata>{nova_metadata() if metadata is None else metadata}</metadata>
  <memory unit="MiB">{memory_mib}</memory>
  <vcpu placement="static"{bound} current="{vcpus}">{maximum or vcpus}</vcpu>
  <os><type arch="x86_64" machine="pc">hvm</type>{loader}{boot}</os>
  {body}
  <devices><emulator>/usr/bin/qemu-system-x86_64</emulator><controller type="usb" model="none"/>
    <memballoon model="none"/>{devices}</devices>
</domain>"""


def write_halting(path: Path) -> Path:
    """A firmware that stops the first vCPU at once: `cli; hlt` where x86 starts. The guest is
    running, and costs nothing."""
    return _write_firmware(path, b"\xfa\xf4")


def write_endless(path: Path) -> Path:
    """A firmware that uses all CPU time that it gets: `jmp` to itself."""
    return _write_firmware(path, b"\xeb\xfe")


def write_scribbling(path: Path, memory_mib: int) -> Path:
    """A firmware that changes every page of the guest's memory, again and again."""
    start, table = 0xFF00, 0xFF80
    code = b"".join(
        (
            b"\xfa\x2e\x66\x0f\x01\x16" + table.to_bytes(2, "little"),  # cli; lgdt cs:[table]
            b"\x0f\x20\xc0\x0c\x01\x0f\x22\xc0",  # Protected mode: cr0 |= 1
            b"\xb8\x08\x00\x8e\xd8",  # ds = all of the memory
            b"\x66\x31\xff",  # edi = 0
            b"\x67\x66\xff\x07",  # ++[edi]
            b"\x66\x81\xc7" + (4096).to_bytes(4, "little"),  # edi += 4096
            b"\x66\x81\xff" + (memory_mib << 20).to_bytes(4, "little"),  # At its end?
            b"\x72\xec\xeb\xe7",  # No: the next page. Yes: edi = 0
        )
    )
    flat = bytes(8) + b"\xff\xff\x00\x00\x00\x92\xcf\x00"
    where = (0xFFFF0000 + table + 6).to_bytes(4, "little")
    described = (len(flat) - 1).to_bytes(2, "little") + where + flat
    to_start = b"\xe9" + (start - 0xFFF3).to_bytes(2, "little", signed=True)
    return _write_firmware(path, to_start, {start: code, table: described})


def _write_firmware(path: Path, code: bytes, further: Mapping[int, bytes] | None = None) -> Path:
    image = bytearray(64 * 1024)
    for at, piece in {len(image) - 16: code, **(further or {})}.items():
        image[at : at + len(piece)] = piece
    path.write_bytes(image)
    return path
