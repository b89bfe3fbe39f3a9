# SPDX-License-Identifier: Apache-2.0
"""What python-openstackclient looks for in a plugin: names, versions, how to make the client."""

import argparse
from typing import Any

from keystoneauth1 import exceptions as ksa_exceptions
from keystoneauth1.adapter import Adapter
from osc_lib import utils

from vp_client.client import SERVICE_TYPE, Client
from vp_client.errors import ServiceNotRegistered

API_NAME = "vp"
API_VERSION_OPTION = "os_vp_api_version"
API_VERSIONS = ("1",)
DEFAULT_API_VERSION = "1"


def make_client(instance: Any) -> Client:
    instance.setup_auth()
    return Client(
        Adapter(
            session=instance.session,
            service_type=SERVICE_TYPE,
            endpoint_override=_endpoint(instance),
            user_agent="nova-vp",
        )
    )


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


def build_option_parser(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    parser.add_argument(
        "--os-vp-api-version",
        metavar="<vp-api-version>",
        default=utils.env("OS_VP_API_VERSION", default=DEFAULT_API_VERSION),
        help="Version of the performance isolation API, "
        f"default={DEFAULT_API_VERSION} (Env: OS_VP_API_VERSION)",
    )
    return parser
