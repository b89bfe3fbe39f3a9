# SPDX-License-Identifier: Apache-2.0
"""Addresses, ports, names and folders of the lab, each written once.

Everything the lab keeps lies under STATE (wiped by the next fresh `lab up`) and CACHE (kept).
Ports and addresses avoid those of packaged services, so that a developer's own ones may run beside.
"""

import os
import uuid
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LAB = ROOT / "testbed" / "lab"
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
STATE = ROOT / ".lab"
RUN = STATE / "run"
LOG = STATE / "log"
ETC = RUN / "etc"
CACHE = ROOT / ".cache"

BRIDGE = "nova-vp"
BRIDGE_MAC = "02:00:00:77:00:01"
CONTROLLER_IP = "10.77.0.1"
NETWORK = "10.77.0.0/24"
PREFIX_LENGTH = NETWORK.partition("/")[2]
GUEST_NETWORK = "guests"
"""Of servers with a port, by its name in the Network API; addresses are those of NETWORK."""
GUEST_NETWORK_ID, GUEST_SUBNET_ID = (
    str(uuid.uuid5(uuid.NAMESPACE_DNS, f"{kind}.{GUEST_NETWORK}")) for kind in ("network", "subnet")
)
DATABASE_IP = "127.0.0.1"
DATABASE_PORT = 3307
RABBIT_PORT = 5673
EPMD_PORT = 4379
RABBIT_DIST_PORT = 25679
MEMCACHED_PORT = 11311
KEYSTONE_PORT = 5000
GLANCE_PORT = 9292
PLACEMENT_PORT = 8778
NOVA_PORT = 8774
NETWORK_STUB_PORT = 9696
VP_API_PORT = 8790
HORIZON_PORT = 8791

PASSWORD = "secret"
REGION = "RegionOne"
CLOUD_USER = "nova-vp-cloud"
HORIZON_URL = f"http://{CONTROLLER_IP}:{HORIZON_PORT}"
KEYSTONE_URL = f"http://{CONTROLLER_IP}:{KEYSTONE_PORT}/v3"
RABBIT_URL = f"rabbit://cloud:{PASSWORD}@{CONTROLLER_IP}:{RABBIT_PORT}/"
COMPUTE_MICROVERSION = "2.100"

HOST_MEMORY_MIB = 4096
REAL_CPUS = os.cpu_count() or 1


def database_url(name: str) -> str:
    return f"mysql+pymysql://root@{DATABASE_IP}:{DATABASE_PORT}/{name}?charset=utf8"


def base_environment() -> dict[str, str]:
    """What every process of the lab starts with: nothing of the caller's own environment.

    A proxy, a PYTHONDONTWRITEBYTECODE (tens of seconds per service start) or a locale of the
    developer's shell must not reach the cloud.
    """
    return {
        "PATH": f"{VENV}/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME": str(RUN),
        "LANG": "C.UTF-8",
        "PYTHONPATH": str(ROOT),
    }


def admin_environment(user: str = "admin") -> dict[str, str]:
    """The OS_* variables of a user whose project has the same name."""
    return {
        "OS_AUTH_URL": KEYSTONE_URL,
        "OS_USERNAME": user,
        "OS_PASSWORD": PASSWORD,
        "OS_PROJECT_NAME": user,
        "OS_USER_DOMAIN_ID": "default",
        "OS_PROJECT_DOMAIN_ID": "default",
        "OS_IDENTITY_API_VERSION": "3",
        "OS_REGION_NAME": REGION,
        "OS_COMPUTE_API_VERSION": COMPUTE_MICROVERSION,
    }
