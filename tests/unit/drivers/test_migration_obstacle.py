# SPDX-License-Identifier: Apache-2.0
"""Which guests Nova cannot live-migrate, by their XML; and the image that they were booted from."""

import pytest

from tests.domain_xml import a_domain, nova_metadata
from vp_agent.drivers.domain_xml import DomainDescription, parse_description

HOST_CPUS = frozenset(range(4))


def described(body: str = "", device: str = "", **specs: str) -> DomainDescription:
    named = {f"hw:{key}": value for key, value in specs.items()}
    metadata = nova_metadata(extra_specs=named)
    return parse_description(a_domain(body=body, devices=device, metadata=metadata), HOST_CPUS)


@pytest.mark.parametrize(
    ("device", "named"),
    [
        ("<hostdev mode='subsystem' type='pci'/>", "PCI"),
        ("<hostdev mode='subsystem' type='usb'/>", "USB"),
        ("<hostdev mode='subsystem' type='mdev'/>", "vGPU"),
        ("<interface type='hostdev'/>", "SR-IOV"),
        ("<filesystem type='mount'><driver type='virtiofs'/></filesystem>", "virtiofs"),
        ("<tpm model='tpm-crb'><backend type='emulator'/></tpm>", "hw:tpm_secret_security=host"),
    ],
)
def test_devices_that_cannot_follow_are_named(device, named):
    assert named in described(device=device).migration_obstacle


def test_encrypted_memory_is_named_beside_other_obstacles():
    both = described("<launchSecurity type='sev'/>", "<interface type='hostdev'/>")
    assert "encrypted" in both.migration_obstacle
    assert "SR-IOV" in both.migration_obstacle


@pytest.mark.parametrize(
    ("body", "device"),
    [
        ("", ""),
        ("<memoryBacking><hugepages/><locked/></memoryBacking>", ""),
        ("<numatune><memory mode='strict' nodeset='0'/></numatune>", ""),
        ("", "<memory model='nvdimm'/>"),
        ("", "<interface type='vdpa'/>"),
        ("", "<disk type='file' device='cdrom'/>"),
    ],
)
def test_what_nova_migrates_is_no_obstacle(body, device):
    assert described(body, device).migration_obstacle == ""


def test_a_virtual_tpm_whose_secret_the_host_keeps_follows():
    tpm = "<tpm model='tpm-crb'><backend type='emulator'/></tpm>"
    assert described(device=tpm, tpm_secret_security="host").migration_obstacle == ""
    assert described(device=tpm, tpm_secret_security="user").migration_obstacle != ""


def test_the_image_is_that_of_novas_metadata():
    assert described().image == ""
    image = "0e1d6e3e-9f4b-4f4f-8c8e-3a8a5d3b1c11"
    root = f'<nova:root type="image" uuid="{image}"/>'
    xml = a_domain().replace("</nova:instance>", f"{root}</nova:instance>")
    assert parse_description(xml, HOST_CPUS).image == image
