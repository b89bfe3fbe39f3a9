# SPDX-License-Identifier: Apache-2.0
"""The connection of an application to vp-api: made once, and kept."""

import functools
import threading

import openstack.config
from keystoneauth1 import exceptions as ksa_exceptions
from keystoneauth1.adapter import Adapter
from keystoneauth1.session import Session
from openstack import exceptions as sdk_exceptions

from vp_client.client import Client
from vp_client.errors import LoginFailed, ServiceNotRegistered
from vp_client.transport import SERVICE_TYPE

TIMEOUT_S = 2.0
"""Of each request that does not say otherwise: a report is of no use for longer."""
_LOCK = threading.Lock()


def client_from_environment() -> Client:
    """One for all of this process, with the credentials of the environment (`OS_CLOUD`, or
    `OS_AUTH_URL` and so on). Raises VpError."""
    with _LOCK:
        return _client()


@functools.cache
def _client() -> Client:
    try:
        cloud = openstack.config.get_cloud_region()
        session, region = cloud.get_session(), cloud.get_region_name()
    except (sdk_exceptions.SDKException, ksa_exceptions.ClientException) as exc:
        raise LoginFailed(str(exc)) from exc
    session.timeout = TIMEOUT_S
    return client_over(session, region)


def client_over(session: Session, region: str | None) -> Client:
    """Raises VpError."""
    try:
        endpoint = session.get_endpoint(service_type=SERVICE_TYPE, region_name=region)
    except ksa_exceptions.ClientException as exc:
        raise LoginFailed(str(exc)) from exc
    if not endpoint:
        raise ServiceNotRegistered(region)
    adapter = Adapter(
        session=session,
        service_type=SERVICE_TYPE,
        endpoint_override=endpoint,
        user_agent="nova-vp",
    )
    return Client(adapter)
