# SPDX-License-Identifier: Apache-2.0
"""What can go wrong when an agent is told something, in words for the operator who told it."""

import contextlib
from collections.abc import Iterator

import oslo_messaging
from oslo_log import log as logging

from vp_api.errors import ApiError, Code

LOG = logging.getLogger(__name__)


@contextlib.contextmanager
def telling(host: str) -> Iterator[None]:
    """Raises ApiError: the agent did not answer, refused, or could not be reached."""
    try:
        yield
    except oslo_messaging.MessagingTimeout as exc:
        raise ApiError(
            Code.AGENT_SILENT,
            f"It may or may not have taken effect: see `openstack vp host show {host}`. Check "
            f"that vp-agent runs on {host} and reaches the message bus, then try again.",
        ) from exc
    except oslo_messaging.RemoteError as exc:
        raise _refused(host, str(exc.value)) from exc
    except oslo_messaging.MessagingException as exc:
        LOG.warning("cannot reach the agents: %s", exc)
        raise ApiError(
            Code.BUS_UNAVAILABLE,
            "Try again. If it stays: the operator checks [bus] transport_url of vp-api and the "
            "broker.",
        ) from exc
    except Exception as exc:
        # What an agent raised arrives as that class, with the agent's traceback in its text.
        LOG.warning("the agent of %s refused: %s", host, exc)
        raise _refused(host, str(exc)) from exc


def _refused(host: str, text: str) -> ApiError:
    first_line = (text.splitlines() or [""])[0] or "no reason given"
    return ApiError(Code.AGENT_REFUSED, f"{host}: {first_line}; its log there says more.")
