# SPDX-License-Identifier: Apache-2.0
"""One answer from those of several hosts to one call. Pure."""

from collections.abc import Mapping

from nova_vp.core.types.overlay import CallAnswer

MOST_DETAIL = 1000


def combined(call_id: str, answers: Mapping[str, CallAnswer]) -> CallAnswer:
    """`answers`: by host. It is granted if all granted it; else the first refusal counts. It stands
    as long as on the host where it ends first."""
    refused = [one.nack for one in answers.values() if one.nack is not None]
    leases = [one.lease_s for one in answers.values() if one.lease_s is not None]
    told = "; ".join(f"{host}: {one.detail or 'done'}" for host, one in answers.items())
    return CallAnswer(
        call_id, refused[0] if refused else None, told[:MOST_DETAIL], min(leases, default=None)
    )
