# SPDX-License-Identifier: Apache-2.0
"""Why Nova cannot, or must not, live-migrate a guest, as far as its XML shows it.

Nova 32 to 34 refuse memory encryption, shares and most virtual TPMs outright, and devices of the
host unless all that is told of them fits, which no host can see alone: an attempt that Nova would
then refuse costs more than a candidate less. NUMA topologies, dedicated CPUs, huge pages,
persistent memory and vDPA are no obstacle to them. What no XML shows (ports with guaranteed
bandwidth, locked servers) Nova itself refuses.
"""

import xml.etree.ElementTree as ET
from collections.abc import Mapping

_TPM_SECURITY = "hw:tpm_secret_security"
_PASSED_THROUGH = "a device of the host is passed through to it ({})"
_BY_DEVICE = (
    ("devices/hostdev[@type='pci']", _PASSED_THROUGH.format("PCI")),
    ("devices/hostdev[@type='usb']", _PASSED_THROUGH.format("USB")),
    ("devices/hostdev[@type='mdev']", _PASSED_THROUGH.format("mediated, a vGPU say")),
    ("devices/interface[@type='hostdev']", "it has an SR-IOV port, which would be unplugged"),
    ("devices/filesystem", "a share is mounted into it (virtiofs)"),
    ("launchSecurity", "its memory is encrypted (<launchSecurity>)"),
)


def migration_obstacle(domain: ET.Element, extra_specs: Mapping[str, str]) -> str:
    """For people; empty: nothing here speaks against it."""
    found = [why for path, why in _BY_DEVICE if domain.find(path) is not None]
    if domain.find("devices/tpm") is not None and extra_specs.get(_TPM_SECURITY) != "host":
        found.append(f"it has a virtual TPM and its flavor does not have {_TPM_SECURITY}=host")
    return "; ".join(found)
