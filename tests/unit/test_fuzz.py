# SPDX-License-Identifier: Apache-2.0
"""A few made-up payloads for everything that takes any; `make rpc-fuzz` makes a million."""

from tests.fuzz.run import a_run, fuzz
from tests.fuzz.shrink import smaller

PAYLOADS = 600


def test_nothing_that_comes_in_breaks_anything():
    with a_run("short") as run:
        fuzz(run, PAYLOADS, seconds=60)
    assert [(one.fault, one.payload) for one in run.findings.values()] == []
    assert run.payloads() == PAYLOADS
    taken = {outcome for _, outcome in run.outcomes}
    assert taken == {"accepted", "refused"}


def test_a_payload_is_made_smaller_as_long_as_it_is_found():
    payload = [
        "report",
        {"text": '{"host":"vp1","vps":[{"name":"a"},{"name":"\\u0000","state":3}]}'},
    ]
    found = smaller(payload, lambda one: "\\u0000" in str(one))
    assert found == [{"text": '{"vps":[{"name":"\\u0000"}]}'}]
