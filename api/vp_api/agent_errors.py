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
            f"that vp-agent runs on {host} and reaches the message bus, then try again. An agent "
            "of a former release does not answer an order that it does not know.",
        ) from exc
    except oslo_messaging.RemoteError as exc:
        raise _refused(host, str(exc.value)) from exc
    except oslo_messaging.MessagingException as exc:
        raise _without_bus(exc) from exc
    except Exception as exc:
        said = _said_by_agent(exc)
        if said is None:
            raise
        LOG.warning("host=%s its agent refused: %s", host, said)
        raise _refused(host, said) from exc


@contextlib.contextmanager
def sending() -> Iterator[None]:
    """Of what no agent answers, for tenants: names no host. Raises ApiError: it is not sent."""
    try:
        yield
    except oslo_messaging.MessagingException as exc:
        raise _without_bus(exc) from exc


def _without_bus(exc: Exception) -> ApiError:
    LOG.warning("cannot reach the agents: %s", exc)
    return ApiError(
        Code.BUS_UNAVAILABLE,
        "Try again. If it stays: the operator checks [bus] transport_url of vp-api and the broker.",
    )


def _said_by_agent(exc: Exception) -> str | None:
    """What an agent raised arrives as that class; None for what went wrong on this side."""
    return str(exc) if isinstance(exc.__cause__, oslo_messaging.RemoteError) else None


def _refused(host: str, said: str) -> ApiError:
    first_line = (said.splitlines() or [""])[0] or "no reason given"
    return ApiError(Code.AGENT_REFUSED, f"{host}: {first_line}; its log there says more.")
