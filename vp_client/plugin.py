# SPDX-License-Identifier: Apache-2.0
"""What python-openstackclient looks for in a plugin: names, versions, how to make the client."""

import argparse
import re
from typing import Any

from keystoneauth1 import exceptions as ksa_exceptions
from keystoneauth1.adapter import Adapter
from openstack import exceptions as sdk_exceptions
from osc_lib import utils
from osc_lib.command.command import Command

from vp_client.client import Client
from vp_client.errors import ServiceNotRegistered
from vp_client.transport import SERVICE_TYPE

API_NAME = "vp"
API_VERSION_OPTION = "os_vp_api_version"
API_VERSIONS = ("1",)
DEFAULT_API_VERSION = "1"


def make_client(instance: Any) -> Client:
    instance.setup_auth()
    adapter = Adapter(
        session=instance.session,
        service_type=SERVICE_TYPE,
        endpoint_override=_endpoint(instance),
        user_agent="nova-vp",
    )
    return Client(
        adapter,
        lambda name: _servers_named(instance.sdk_connection, name),
        lambda project, domain: _project(instance.sdk_connection, project, domain),
        lambda flavor: _flavor(instance.sdk_connection, flavor),
    )


def client_of(command: Command) -> Client:
    """The shell makes it when it is first asked for, and keeps it under our name."""
    client: Client = getattr(command.app.client_manager, API_NAME)
    return client


def _endpoint(instance: Any) -> str:
    """Of the catalog, of `performance_isolation_endpoint_override`, or of --os-endpoint."""
    try:
        endpoint = instance.get_endpoint_for_service_type(
            SERVICE_TYPE, region_name=instance.region_name, interface=instance.interface
        )
    except ksa_exceptions.CatalogException:
        endpoint = None
    if not endpoint:
        raise ServiceNotRegistered(instance.region_name)
    return str(endpoint)


def _servers_named(connection: Any, name: str) -> list[str]:
    """In the project of the token. Where Nova cannot be asked, vp-api's own names have to do."""
    try:
        found = connection.compute.servers(details=False, name=f"^{re.escape(name)}$")
        return [server.id for server in found if server.name == name]
    except (sdk_exceptions.SDKException, ksa_exceptions.ClientException):
        return []


def _project(connection: Any, project: str, domain: str | None) -> str | None:
    """Its id. Not everybody may ask keystone for projects."""
    try:
        within = {} if domain is None else {"domain_id": _domain(connection, domain)}
        found = connection.identity.find_project(project, ignore_missing=True, **within)
    except (sdk_exceptions.SDKException, ksa_exceptions.ClientException):
        return None
    return None if found is None else str(found.id)


def _domain(connection: Any, domain: str) -> str:
    """Its id: who may not ask for domains gives that."""
    try:
        found = connection.identity.find_domain(domain, ignore_missing=True)
    except sdk_exceptions.ForbiddenException:
        return domain
    return domain if found is None else str(found.id)


def _flavor(connection: Any, flavor: str) -> dict[str, Any] | None:
    """What of it is asked about."""
    try:
        found = connection.compute.find_flavor(flavor, get_extra_specs=True, ignore_missing=True)
    except (sdk_exceptions.SDKException, ksa_exceptions.ClientException):
        return None
    if found is None:
        return None
    return {"name": found.name, "vcpus": found.vcpus, "extra_specs": dict(found.extra_specs or {})}


def has_aggregate(command: Command, name: str) -> bool:
    """True also where Nova cannot be asked for its host aggregates."""
    try:
        found = command.app.client_manager.sdk_connection.compute.aggregates()
        return any(one.name == name for one in found)
    except (sdk_exceptions.SDKException, ksa_exceptions.ClientException):
        return True


def build_option_parser(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    parser.add_argument(
        "--os-vp-api-version",
        metavar="<vp-api-version>",
        default=utils.env("OS_VP_API_VERSION", default=DEFAULT_API_VERSION),
        help="Version of the performance isolation API, "
        f"default={DEFAULT_API_VERSION} (Env: OS_VP_API_VERSION)",
    )
    return parser
