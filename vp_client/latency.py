# SPDX-License-Identifier: Apache-2.0
"""How an application reports its latency: one connection that is kept, one line for each report.

It needs keystoneauth1 and openstacksdk, as the rest of this package, and nothing of the shell.
"""

import time

from vp_client.connection import client_from_environment
from vp_client.transport import Told


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
    client = client_from_environment()
    return client.report_latency(server_id, latency_ms, load, percentile, measured_at)
