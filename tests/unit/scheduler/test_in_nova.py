# SPDX-License-Identifier: Apache-2.0
"""What nova-scheduler must not suffer from us: I/O, races, or an option that nobody checked."""

import logging
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import nova.conf
import pytest
from nova import context, objects

from tests.messages import a_domain, digest_text, hear, profiles_text
from tests.unit.scheduler.cloud import CALM, HOSTILE, UUID, Cloud, a_host, a_request
from vp_scheduler.placement.settings import SettingsReader

pytestmark = pytest.mark.nova

IO = ("open", "socket.", "sqlite3.", "subprocess.", "os.", "shutil.", "time.sleep", "urllib.")
_guarded = threading.local()


def _refuse_io(event: str, args: tuple[Any, ...]) -> None:
    if getattr(_guarded, "is_on", False) and event.startswith(IO):
        raise AssertionError(f"I/O in the scheduler: {event} {args}")


sys.addaudithook(_refuse_io)


@contextmanager
def no_io() -> Iterator[None]:
    _guarded.is_on = True
    try:
        yield
    finally:
        _guarded.is_on = False


def test_io_would_be_noticed() -> None:
    with no_io(), pytest.raises(AssertionError, match="open"):
        Path("/etc/hostname").read_text()


def test_neither_filter_nor_weigher_does_io_or_loads_fields() -> None:
    """Everything that Nova's objects would load is left unset here: loading it needs a database."""
    cloud = Cloud(vp1=HOSTILE, vp2=CALM)
    cloud.view.learned.accept(profiles_text(("f1", None, 1)))
    hear(cloud.view, digest_text("left", a_domain(), known={UUID.format(5): 1}))
    ctxt = context.get_admin_context()
    hosts = [a_host(name, servers=[UUID.format(7)], more=1) for name in ("vp1", "vp2", "vp3")]
    for host in hosts:
        host.instances[UUID.format(8)] = objects.Instance(ctxt, uuid=UUID.format(8))
    group = objects.InstanceGroup(ctxt, uuid=UUID.format(9), members=[UUID.format(5)])
    for fields in ({}, {"instance_group": group}, {"ignore_hosts": ["left"]}):
        for isolation in ("strict", "soft", "none"):
            with no_io():
                cloud.passing(a_request(isolation, fields=fields), hosts)
                cloud.ranked(a_request(isolation, fields=fields), hosts)


class Threads:
    """What any of them raises, the test raises."""

    def __init__(self) -> None:
        self._threads: list[threading.Thread] = []
        self._faults: list[BaseException] = []

    def add(self, work: Callable[[], None]) -> None:
        self._threads.append(threading.Thread(target=self._run, args=(work,)))

    def _run(self, work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as exc:
            self._faults.append(exc)

    def run(self) -> None:
        for thread in self._threads:
            thread.start()
        for thread in self._threads:
            thread.join()
        if self._faults:
            raise self._faults[0]


HERE, COMING = [UUID.format(number) for number in range(40, 80)], UUID.format(80)
SCORES = {
    100.0,  # calm, whoever else is coming
    72.63,  # hostile: (1 - 0.31) / 0.95
    63.16,  # hostile, and the better place is taken: (1 - 0.4) / 0.95
}


class Traffic:
    """What happens to a scheduler process at once: each digest is calm or hostile as a whole."""

    def __init__(self) -> None:
        self.cloud = Cloud()
        self.hosts = [a_host(f"vp{number}", servers=HERE) for number in range(10)]
        self.threads = Threads()
        self.hear(1)

    def hear(self, sequence: int) -> None:
        domains = HOSTILE if sequence % 2 else CALM
        for host in self.hosts:
            order = (1, sequence)
            text = digest_text(host.host, *domains, known=dict.fromkeys(HERE, 1), order=order)
            hear(self.cloud.view, text)
        self.cloud.view.learned.accept(profiles_text(("f2", None, sequence % 9), sent=sequence))

    def listen(self) -> None:
        for sequence in range(2, 80):
            self.hear(sequence)

    def come_and_go(self) -> None:
        for _ in range(5000):
            for host in self.hosts:
                host.instances[COMING] = objects.Instance(uuid=COMING)
            for host in self.hosts:
                del host.instances[COMING]

    def judge(self) -> None:
        for _ in range(50):
            self.cloud.passing(a_request("strict"), self.hosts)
            ranked = self.cloud.ranked(a_request("soft"), self.hosts)
            assert {round(score, 2) for score in ranked.values()} <= SCORES


@pytest.fixture
def hasty_threads() -> Iterator[None]:
    """They change turns as often as they can."""
    usual_s = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(usual_s)


@pytest.mark.usefixtures("hasty_threads")
def test_threads_that_judge_and_threads_that_hear_do_not_disturb_each_other() -> None:
    traffic = Traffic()
    for work in (traffic.listen, traffic.judge, traffic.judge, traffic.come_and_go):
        traffic.threads.add(work)
    traffic.threads.run()


@pytest.fixture
def nova_conf(tmp_path: Path) -> Iterator[Any]:
    """nova.conf as nova-scheduler reads it, with the given text."""
    conf = nova.conf.CONF

    def write(text: str) -> None:
        path = tmp_path / "nova.conf"
        path.write_text(text)
        conf([], project="nova", default_config_files=[str(path)], default_config_dirs=[])

    yield write
    conf.reset()


BAD_OPTIONS = [
    ("policy", "strict_max_hurt_ratio", "nan"),
    ("policy", "strict_max_hurt_ratio", "5 %"),
    ("policy", "strict_max_hurt_ratio", "5"),
    ("vp_scheduler", "interference_weight_multiplier", "inf"),
    ("vp_scheduler", "interference_weight_multiplier", "much"),
    ("vp_scheduler", "stale_after_s", "0"),
    ("vp_scheduler", "stale_after_s", "nan"),
    ("vp_scheduler", "stale_hosts", "maybe"),
]


@pytest.mark.parametrize(("group", "name", "value"), BAD_OPTIONS)
def test_a_bad_option_is_told_once_and_its_default_holds(
    group: str, name: str, value: str, nova_conf: Any, caplog: pytest.LogCaptureFixture
) -> None:
    cloud = Cloud(vp1=HOSTILE, vp2=CALM)
    hosts = [a_host("vp1"), a_host("vp2"), a_host("vp3")]
    nova_conf(f"[{group}]\n{name} = {value}\n")
    for _ in range(2):
        assert cloud.passing(a_request(), hosts) == ["vp2", "vp3"]
        assert cloud.ranked(a_request(), hosts)["vp2"] == pytest.approx(100.0)
    for reader in ("filter", "weigher"):
        errors = [r for r in caplog.records if r.levelno == logging.ERROR]
        assert len(errors) == 2, f"once by the {reader}"
        assert f"[{group}] {name}" in errors[0].getMessage()


def test_every_option_of_a_request_is_read(nova_conf: Any) -> None:
    nova_conf(
        "[policy]\nstrict_max_hurt_ratio = 0.2\n[vp_scheduler]\nstale_hosts = refuse\n"
        "interference_weight_multiplier = 7\nstale_after_s = 9\nknown_hosts = vp1,vp2\n"
    )
    settings = SettingsReader(nova.conf.CONF).read()
    assert settings.good_enough_ratio == 0.2
    assert settings.refuses_unknown
    assert settings.multiplier == 7
    assert settings.stale_after_s == 9
    assert settings.known_hosts == ("vp1", "vp2")


def test_another_limit_than_the_views_is_answered_too(nova_conf: Any) -> None:
    nova_conf("[policy]\nstrict_max_hurt_ratio = 0.35\n")
    assert Cloud(vp1=HOSTILE).passing(a_request(), [a_host("vp1")]) == ["vp1"]


def test_a_multiplier_of_an_aggregate_that_is_no_number_is_ignored() -> None:
    hosts = [a_host("vp1"), a_host("vp2")]
    hosts[0].aggregates = [objects.Aggregate(metadata={"interference_weight_multiplier": "nan"})]
    ranked = Cloud(vp1=HOSTILE, vp2=CALM).ranked(a_request(), hosts)
    assert list(ranked) == ["vp2", "vp1"]
