# SPDX-License-Identifier: Apache-2.0
"""How an application reports its latency: one connection that is kept, one line for each report.

It needs keystoneauth1 and openstacksdk, as the rest of this package, and nothing of the shell.
"""

import functools
import threading
import time

import openstack.config
from keystoneauth1 import exceptions as ksa_exceptions
from keystoneauth1.adapter import Adapter
from openstack import exceptions as sdk_exceptions

from vp_client.client import SERVICE_TYPE, Client, Told
from vp_client.errors import LoginFailed, ServiceNotRegistered

TIMEOUT_S = 2.0
"""A report is of no use for longer: the next one is due."""
_LOCK = threading.Lock()


def report_latency(
    server_id: str, latency_ms: float, load: float | None = None, percentile: float | None = None
) -> Told:
    """Report the latency of a latency-critical server's requests since the last report, and its
    load, in the unit of `vp:max_load`. `percentile`: of the latency; None: that of the server.

    Credentials are those of the environment (`OS_CLOUD`, or `OS_AUTH_URL` and so on), best an
    application credential. The connection is made by the first call, and kept. Waits two seconds at
    most for each answer.

    Raises VpError: vp-api refused it (`Refused`, with its HTTP status), or does not answer, or
    there is no token (`LoginFailed`). Go on, and report again when the next report is due.
    """
    measured_at = time.time()
    with _LOCK:
        client = _client()
    return client.report_latency(server_id, latency_ms, load, percentile, measured_at)


@functools.cache
def _client() -> Client:
    """Raises VpError."""
    try:
        cloud = openstack.config.get_cloud_region()
        session, region = cloud.get_session(), cloud.get_region_name()
        session.timeout = TIMEOUT_S
        endpoint = session.get_endpoint(service_type=SERVICE_TYPE, region_name=region)
    except (sdk_exceptions.SDKException, ksa_exceptions.ClientException) as exc:
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
