# SPDX-License-Identifier: Apache-2.0
"""What is in the cloud before its first user comes: service users, tenants and endpoints in
keystone (part of the cached dump), then image and flavors. Everything is looked up by name before
it is made.
"""

import hashlib
from pathlib import Path

from openstack.connection import Connection

from testbed.lab import settings

IP = settings.CONTROLLER_IP
ENDPOINTS = (
    ("placement", "placement", f"http://{IP}:{settings.PLACEMENT_PORT}"),
    ("glance", "image", f"http://{IP}:{settings.GLANCE_PORT}"),
    ("nova", "compute", f"http://{IP}:{settings.NOVA_PORT}/v2.1"),
    ("neutron", "network", f"http://{IP}:{settings.NETWORK_STUB_PORT}"),
    ("nova-vp", "performance-isolation", f"http://{IP}:{settings.VP_API_PORT}"),
)
SERVICE_USERS = ("nova", "placement", "glance", "nova-vp")
ESCALATION_ROLE = "vp_escalation"
"""That of etc/nova-vp/nova-policy.yaml. The user of [cloud] has it in every project, and in its own
`service`, as Placement wants it; it is no admin."""
TENANTS = ("tenant-a", "tenant-b")
FLAVORS = (("vp.tiny", 1, 96), ("vp.small", 2, 128))
IMAGE = "vp-guest"


def fill_identity(cloud: Connection) -> None:
    roles = {role.name: role.id for role in cloud.identity.roles()}
    for user in SERVICE_USERS:
        _add_user(cloud, user, "service", (roles["admin"], roles["service"]))
    _add_user(cloud, settings.CLOUD_USER, "service", (roles["service"],))
    _grant_everywhere(cloud, settings.CLOUD_USER, roles.get(ESCALATION_ROLE))
    for tenant in TENANTS:
        _add_user(cloud, tenant, tenant, (roles["member"],))
    for name, kind, url in ENDPOINTS:
        _add_endpoint(cloud, name, kind, url)


def _add_user(cloud: Connection, name: str, project: str, roles: tuple[str, ...]) -> None:
    owner = cloud.identity.find_project(project) or cloud.identity.create_project(
        name=project, domain_id="default"
    )
    user = cloud.identity.find_user(name) or cloud.identity.create_user(
        name=name, password=settings.PASSWORD, domain_id="default"
    )
    for role in roles:
        cloud.identity.assign_project_role_to_user(owner, user, role)


def _grant_everywhere(cloud: Connection, user_name: str, role_id: str | None) -> None:
    """In all projects of the domain, those to come too."""
    role = role_id or cloud.identity.create_role(name=ESCALATION_ROLE).id
    user = cloud.identity.find_user(user_name)
    cloud.identity.assign_domain_role_to_user("default", user, role, inherited=True)


def _add_endpoint(cloud: Connection, name: str, kind: str, url: str) -> None:
    service = cloud.identity.find_service(name) or cloud.identity.create_service(
        name=name, type=kind
    )
    present = {endpoint.interface for endpoint in cloud.identity.endpoints(service_id=service.id)}
    for interface in {"public", "internal"} - present:
        cloud.identity.create_endpoint(
            service_id=service.id, interface=interface, region_id=settings.REGION, url=url
        )


def ensure_flavors(cloud: Connection) -> None:
    present = {flavor.name for flavor in cloud.compute.flavors(details=False)}
    for name, vcpus, ram in FLAVORS:
        if name not in present:
            cloud.compute.create_flavor(name=name, id=name, vcpus=vcpus, ram=ram, disk=1)


def ensure_image(cloud: Connection, source: Path) -> None:
    """The image of that name with the file's content; an older one is replaced."""
    digest = hashlib.sha512(source.read_bytes()).hexdigest()
    for image in cloud.image.images(name=IMAGE):
        if image.status == "active" and image.hash_value == digest:
            return
        cloud.image.delete_image(image)
    cloud.image.create_image(
        IMAGE,
        filename=str(source),
        disk_format="qcow2",
        container_format="bare",
        visibility="public",
        wait=True,
    )
