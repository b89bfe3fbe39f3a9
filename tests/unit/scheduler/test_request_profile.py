# SPDX-License-Identifier: Apache-2.0
"""What a server is taken for before its new host can measure it, and how that places it."""

import logging
from typing import Any

import pytest
from nova import objects

from tests.messages import a_domain, digest_text, hear, profiles_text
from tests.unit.scheduler.cloud import UUID, Cloud, a_host, a_request

pytestmark = pytest.mark.nova

SERVER, SIBLING, OTHER, STRANGER = (UUID.format(number) for number in (1, 2, 3, 4))
IMAGE = UUID.format(77)


def hurts(number: int) -> tuple[Any, Any]:
    """A host where newcomers of one class, and nobody else, are hurt."""
    return a_domain(0, of_class={number: 0.31}), a_domain(1, of_class={number: 0.31})


class Classes(Cloud):
    """Nine hosts, each of which hurts newcomers of one class; `host-9` those of unknown class."""

    def __init__(self) -> None:
        super().__init__(**{f"host-{number}": hurts(number) for number in range(9)})
        hear(self.view, digest_text("host-9", a_domain(0, newcomer=0.31)))

    def taken_for(self, spec: Any) -> int:
        hosts = [a_host(f"host-{number}") for number in range(10)]
        passing = self.passing(spec, hosts)
        [refused] = {host.host for host in hosts} - set(passing)
        return int(refused.removeprefix("host-"))


def a_group(hosts: list[str] | None, *members: str) -> objects.InstanceGroup:
    fields = {} if hosts is None else {"hosts": hosts}
    return objects.InstanceGroup(uuid=UUID.format(99), members=list(members), **fields)


ORDER = [
    ("measured on the host that it leaves", 8),
    ("as its flavor says", 0),
    ("as others of its server group", 5),
    ("nobody knows what it does", 9),
]


@pytest.mark.parametrize("first", range(len(ORDER)), ids=[name for name, _ in ORDER])
def test_the_best_that_is_known_of_it_counts(first: int) -> None:
    cloud = Classes()
    fields: dict[str, Any] = {"ignore_hosts": ["gone", "left"]}
    specs: dict[str, str] = {}
    fields["image"] = objects.ImageMeta(id=IMAGE)
    cloud.view.learned.accept(profiles_text(("f1", None, 7), ("f1", IMAGE, 2)))
    if first <= 2:
        known = {SIBLING: 5, OTHER: 5, STRANGER: 3}
        hear(cloud.view, digest_text("elsewhere", a_domain(), known=known))
        fields["instance_group"] = a_group(["elsewhere", "gone"], SERVER, SIBLING, OTHER)
    if first <= 1:
        specs["expects"] = "quiet"
    if first == 0:
        hear(cloud.view, digest_text("left", a_domain(), known={SERVER: 8}))
    assert cloud.taken_for(a_request(fields=fields, **specs)) == ORDER[first][1]


@pytest.mark.parametrize(
    ("label", "text"),
    [
        ("an older agent", digest_text("left", a_domain(), known=[SERVER])),
        ("not measured yet", digest_text("left", a_domain(), known={SERVER: 9})),
        ("not there", digest_text("left", a_domain(), known={OTHER: 8})),
        ("no news", digest_text("left", a_domain(), known={SERVER: 8}, age_ms=181_000)),
    ],
)
def test_what_the_left_host_does_not_say_is_not_known(label: str, text: str) -> None:
    cloud = Classes()
    hear(cloud.view, text)
    assert cloud.taken_for(a_request(fields={"ignore_hosts": ["left"]})) == 9, label


@pytest.mark.parametrize("hosts", [None, [], ["gone"]])
def test_a_group_of_which_nothing_is_known_says_nothing(hosts: list[str] | None) -> None:
    group = a_group(hosts, SERVER, SIBLING)
    assert Classes().taken_for(a_request(fields={"instance_group": group})) == 9


def test_of_members_that_differ_the_most_demanding_counts() -> None:
    cloud = Classes()
    hear(cloud.view, digest_text("elsewhere", a_domain(), known={SIBLING: 1, OTHER: 5}))
    group = a_group(["elsewhere"], SERVER, SIBLING, OTHER)
    assert cloud.taken_for(a_request(fields={"instance_group": group})) == 5


def learned_class(cloud: Cloud, **specs: str) -> int | None:
    image = {"image": objects.ImageMeta(id=IMAGE)}
    return cloud.placement.read(a_request(fields=image, **specs)).profile.learned_class


def test_of_its_flavor_and_image_rather_than_of_its_flavor() -> None:
    cloud = Cloud()
    cloud.view.learned.accept(profiles_text(("f1", None, 7), ("f1", "x", 4), sent=100.0))
    assert learned_class(cloud) == 7
    cloud.view.learned.accept(profiles_text(("f1", None, 7), ("f1", IMAGE, 2), sent=101.0))
    assert learned_class(cloud) == 2


def test_nothing_is_learned_of_who_is_known() -> None:
    cloud = Cloud()
    cloud.view.learned.accept(profiles_text(("f1", None, 7)))
    assert learned_class(cloud, expects="quiet") is None


def test_profiles_are_replaced_as_a_whole() -> None:
    cloud = Cloud()
    cloud.view.learned.accept(profiles_text(("f1", None, 7), sent=100.0))
    cloud.view.learned.accept(profiles_text(("f2", None, 7), sent=101.0))
    assert learned_class(cloud) is None


def test_the_log_says_what_was_learned(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="vp_scheduler")
    cloud = Cloud(vp1=[a_domain()])
    cloud.view.learned.accept(profiles_text(("f1", None, 3)))
    cloud.passing(a_request(), [a_host("vp1")])
    assert (
        f"server {SERVER} (strict; unknown; residents lose no more than to state 3, as learned of "
        "its flavor): vp1: passed"
    ) in caplog.text


def test_a_server_that_moves_goes_where_its_kind_is_not_hurt() -> None:
    cloud = Cloud(hurts_streams=hurts(8), hurts_caches=hurts(1))
    hear(cloud.view, digest_text("left", a_domain(), known={SERVER: 1}))
    hosts = [a_host("hurts_streams"), a_host("hurts_caches")]
    spec = a_request("soft", fields={"ignore_hosts": ["left"]})
    assert list(cloud.ranked(spec, hosts)) == ["hurts_streams", "hurts_caches"]


def test_the_log_says_from_where_it_is_known(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="vp_scheduler")
    cloud = Cloud(vp1=[a_domain()])
    hear(cloud.view, digest_text("left", a_domain(), known={SERVER: 8}))
    cloud.passing(a_request(fields={"ignore_hosts": ["left"]}), [a_host("vp1")])
    assert f"server {SERVER} (strict; taken for state 8, measured on left): vp1: passed" in (
        caplog.text
    )


# Servers on their way: one domain, and no neighbour but them.
LONE = [a_domain(cpus=8)]


def passes_beside(first: Any, second: Any, *, is_named: bool = True) -> bool:
    """Whether the second request may go where the first one has just gone."""
    cloud = Cloud(vp1=LONE)
    assert cloud.passing(first, [a_host("vp1")]) == ["vp1"]
    servers = [first.instance_uuid] if is_named else []
    host = a_host("vp1", servers=servers, more=not is_named)
    return cloud.passing(second, [host]) == ["vp1"]


@pytest.mark.parametrize(
    ("label", "first", "second", "passes"),
    [
        ("a stream would hurt it", ("none", "streaming"), ("strict", "mixed"), False),
        ("who is quiet would not", ("none", "quiet"), ("strict", "mixed"), True),
        ("a strict one would be hurt", ("strict", "mixed"), ("strict", "streaming"), False),
        ("who is not strict may be", ("none", "mixed"), ("strict", "streaming"), True),
    ],
)
def test_who_is_on_the_way_counts_as_what_it_was_taken_for(
    label: str, first: tuple[str, str], second: tuple[str, str], passes: bool
) -> None:
    one = a_request(first[0], server=OTHER, expects=first[1])
    other = a_request(second[0], expects=second[1])
    assert passes_beside(one, other) is passes, label


def test_who_is_on_the_way_counts_by_its_flavor_where_another_process_chose_its_host() -> None:
    for expects, passes in (("quiet", True), ("streaming", False)):
        host = a_host("vp1", servers=[OTHER])
        flavor = objects.Flavor(flavorid="f2", name="f2", extra_specs={"vp:expects": expects})
        host.instances[OTHER].vcpus = 1
        host.instances[OTHER].flavor = flavor
        spec = a_request(expects="mixed")
        assert (Cloud(vp1=LONE).passing(spec, [host]) == ["vp1"]) is passes


def test_a_server_on_its_way_with_a_faulty_flavor_counts_as_unknown() -> None:
    host = a_host("vp1", servers=[OTHER])
    host.instances[OTHER].vcpus = 1
    host.instances[OTHER].flavor = objects.Flavor(extra_specs={"vp:expects": "much"})
    assert Cloud(vp1=LONE).passing(a_request(expects="quiet"), [host]) == ["vp1"]
    assert Cloud(vp1=LONE).passing(a_request(expects="mixed"), [host]) == []


def test_those_of_one_multi_create_are_like_the_one_asked_for() -> None:
    for expects, passes in (("quiet", True), ("cache", False)):
        first, second = (a_request(server=uuid, expects=expects) for uuid in (OTHER, SERVER))
        assert passes_beside(first, second, is_named=False) is passes


@pytest.mark.parametrize("is_named", [True, False])
def test_servers_of_one_group_are_one_vp(is_named: bool) -> None:
    group = a_group(["vp1"], SERVER, OTHER)
    fields = {"instance_group": group}
    first, second = (
        a_request(server=uuid, fields=fields, expects="cache") for uuid in (OTHER, SERVER)
    )
    assert passes_beside(first, second, is_named=is_named)
    stranger = a_request(server=STRANGER, expects="cache")
    assert not passes_beside(stranger, second)
