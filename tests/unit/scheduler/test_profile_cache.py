# SPDX-License-Identifier: Apache-2.0
"""Learned profiles: which message counts, and what is refused."""

import pytest

from nova_vp import wire
from nova_vp.message_filter import RejectedMessage
from nova_vp.signing.keyring import ToldKeys
from nova_vp.signing.senders import Process
from tests.identities import call_of
from tests.messages import profiles_text
from vp_scheduler.ingest.profile_cache import ProfileCache
from vp_scheduler.placement.host_view import HostView
from vp_scheduler.placement.listener import DigestEndpoint


class Clock:
    now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


def test_nothing_is_known_before_somebody_tells() -> None:
    learned = ProfileCache(180.0, Clock())
    assert learned.of_image("f1", "i1") is None
    assert learned.of_flavor("f1") is None


def test_a_flavor_is_what_the_message_says_of_it_whatever_its_images_are() -> None:
    """Images are counted nowhere: one project may make many."""
    learned = ProfileCache(180.0, Clock())
    images = [("f1", image, 8) for image in ("a", "b", "c")]
    learned.accept(profiles_text(*images, ("f1", None, 1), ("f2", "", 3)))
    assert learned.of_image("f1", "c") == 8
    assert learned.of_image("f1", "d") is None
    assert learned.of_flavor("f1") == 1
    assert (learned.of_image("f2", ""), learned.of_flavor("f2")) == (3, None)


def test_the_latest_sent_counts_while_it_is_news() -> None:
    clock = Clock()
    learned = ProfileCache(180.0, clock)
    learned.accept(profiles_text(("f1", None, 1), sent=100.0))
    with pytest.raises(RejectedMessage):
        learned.accept(profiles_text(("f1", None, 2), sent=99.0))
    assert learned.of_flavor("f1") == 1
    clock.now_s += 180.1
    assert learned.of_flavor("f1") == 1
    learned.accept(profiles_text(("f1", None, 2), sent=99.0))
    assert learned.of_flavor("f1") == 2


@pytest.mark.parametrize(
    ("label", "text"),
    [
        ("not JSON", "{"),
        ("a class there is not", profiles_text(("f1", "a", 9))),
        ("no image", profiles_text().replace("[]", '[["f1",1]]')),
        ("one field more", profiles_text().replace("[]", '[["f1","a",1,2]]')),
        ("too many", profiles_text(*[(f"f{n}", "a", 1) for n in range(wire.MAX_LEARNED + 1)])),
    ],
)
def test_hostile_messages_change_nothing(label: str, text: str) -> None:
    view = HostView(180.0)
    endpoint = DigestEndpoint(view, ToldKeys())
    endpoint.profiles(call_of(Process.SCHEDULER), profiles_text(("f1", None, 1)))
    endpoint.profiles(call_of(Process.SCHEDULER), text)
    assert endpoint.refusals.counts["malformed"] == 1, label
    assert view.learned.of_flavor("f1") == 1


def test_the_most_that_is_sent_fits() -> None:
    longest = ("f" * 255, "0" * 36, 8)
    text = profiles_text(*[longest] * wire.MAX_LEARNED)
    ProfileCache(180.0, Clock()).accept(text)
