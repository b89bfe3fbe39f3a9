# SPDX-License-Identifier: Apache-2.0
"""What is billed, on this host's disk: counted once, kept until the database has it."""

import errno
import json
import logging
from typing import Any

import pytest

from nova_vp import wire
from nova_vp.core.types.usage import Usage
from tests.decisions import a_decision, a_guest, a_view, uuid_of
from tests.messages import HOUR
from vp_agent.publish.usage_log import (
    LEFT_OUT_S,
    MOST_RECORDS,
    SETTLED_S,
    Key,
    UsageLog,
    message,
)

ONE = Usage("plain", 1.0, 0.5, 900.0, 4500.0, 4000.0, 0.25)
NEXT = HOUR + wire.HOUR_S


class Disk:
    """One file; it can be full."""

    def __init__(self, text: str | None = None) -> None:
        self.text = text
        self.is_full = False
        self.writes = 0

    def read(self) -> str | None:
        return self.text

    def write(self, text: str) -> None:
        if self.is_full:
            raise OSError(errno.ENOSPC, "No space left on device")
        self.text = text
        self.writes += 1


def a_log(disk: Disk, epoch: int = 7) -> UsageLog:
    return UsageLog(disk.read, disk.write, epoch)


def tick(log: UsageLog, at: float = HOUR, *used: Usage, number: int = 1, **guest: Any) -> None:
    view = a_view(number, guest=a_guest(number, **guest), usage=used or (ONE,))
    log.add(a_decision(view), at)


def key(number: int = 1, hour: int = HOUR, attribution: str = "plain", meter: int = 7) -> Key:
    return Key(meter, uuid_of(number), "p" * 32, hour, attribution)


def unsent(log: UsageLog) -> dict[Key, Usage]:
    return {key: used for batch in log.unsent() for key, used in batch.items()}


def send(log: UsageLog, **left_out: str) -> dict[Key, Usage]:
    whole = unsent(log)
    for batch in log.unsent():
        log.note_taken(batch, left_out)
    return whole


def test_ticks_of_one_hour_and_attribution_add_up() -> None:
    log = a_log(Disk())
    for at in (HOUR, HOUR + 1, HOUR + 3599):
        tick(log, at)
    tick(log, NEXT)
    tick(log, NEXT, ONE._replace(attribution="estimate"))
    log.save(NEXT)
    assert unsent(log) == {
        key(): Usage("plain", 3.0, 1.5, 2700.0, 13500.0, 12000.0, 0.75),
        key(hour=NEXT): ONE,
        key(hour=NEXT, attribution="estimate"): ONE._replace(attribution="estimate"),
    }


def test_what_is_sent_is_a_valid_message() -> None:
    log = a_log(Disk())
    tick(log)
    log.save(HOUR)
    [batch] = log.unsent()
    told = wire.decode(wire.USAGE_TOPIC, message("vp1", batch))
    assert told["records"] == [{**key()._asdict(), **ONE._asdict()}]


def test_a_server_of_nobodys_project_is_not_billed() -> None:
    log = a_log(Disk())
    tick(log, project_id="")
    log.save(HOUR)
    assert unsent(log) == {}


def test_only_what_is_on_disk_is_sent(caplog: pytest.LogCaptureFixture) -> None:
    disk = Disk()
    log = a_log(disk)
    tick(log)
    log.save(HOUR)
    tick(log)
    tick(log, number=2)
    assert unsent(log) == {key(): ONE}
    disk.is_full = True
    for _ in range(3):
        log.save(HOUR)
    assert unsent(log) == {key(): ONE}
    assert caplog.text.count("usage is not saved") == 1
    disk.is_full = False
    log.save(HOUR)
    assert unsent(log)[key()].booked_s == 2.0


def test_what_did_not_change_is_not_written_again() -> None:
    disk = Disk()
    log = a_log(disk)
    tick(log)
    log.save(HOUR)
    log.save(HOUR + 1)
    assert disk.writes == 1


def test_what_is_taken_is_sent_again_once_it_has_grown() -> None:
    log = a_log(Disk())
    tick(log)
    log.save(HOUR)
    assert len(send(log)) == 1
    assert unsent(log) == {}
    tick(log)
    log.save(HOUR)
    assert unsent(log)[key()].booked_s == 2.0


def test_what_grew_while_it_was_sent_is_sent_again() -> None:
    log = a_log(Disk())
    tick(log)
    log.save(HOUR)
    [batch] = log.unsent()
    tick(log)
    log.save(HOUR)
    log.note_taken(batch, {})
    assert unsent(log)[key()].booked_s == 2.0


def test_a_next_run_goes_on_where_the_file_ends() -> None:
    disk = Disk()
    first = a_log(disk)
    tick(first)
    first.save(HOUR)
    tick(first)  # Lost: it was not written.
    second = a_log(disk, epoch=8)
    tick(second)
    second.save(HOUR)
    assert unsent(second) == {key(): Usage("plain", 2.0, 1.0, 1800.0, 9000.0, 8000.0, 0.5)}


def test_without_its_file_a_next_run_is_another_meter() -> None:
    log = a_log(Disk(), epoch=8)
    tick(log)
    log.save(HOUR)
    assert unsent(log) == {key(meter=8): ONE}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{",
        '{"meter": 7, "forgotten": 0}',
        '{"meter": -1, "forgotten": 0, "records": []}',
        '{"meter": 7, "forgotten": 0, "records": [{}]}',
        '{"meter": 7, "forgotten": 0, "records": [1]}',
        '{"meter": 1e999, "forgotten": 0, "records": []}',
        "[" * 100_000,
    ],
)
def test_a_damaged_file_is_another_meter_too(text: str, caplog: pytest.LogCaptureFixture) -> None:
    log = a_log(Disk(text), epoch=9)
    tick(log)
    log.save(HOUR)
    assert unsent(log) == {key(meter=9): ONE}
    assert "usage.json is damaged" in caplog.text


@pytest.mark.parametrize(
    ("name", "value"),
    [("booked_s", -1.0), ("over_s", "x"), ("uuid", ""), ("project_id", "\u00e9"), ("hour", None)],
)
def test_a_file_with_a_record_that_is_none(name: str, value: object) -> None:
    disk = Disk()
    log = a_log(disk)
    tick(log)
    log.save(HOUR)
    told = json.loads(str(disk.text))
    told["records"][0][name] = value
    assert unsent(a_log(Disk(json.dumps(told)))) == {}


def test_an_hour_that_is_over_and_taken_is_forgotten() -> None:
    disk = Disk()
    log = a_log(disk)
    tick(log)
    log.save(HOUR)
    send(log)
    log.save(NEXT + SETTLED_S)
    assert json.loads(str(disk.text))["records"]
    log.save(NEXT + SETTLED_S + 1)
    assert not json.loads(str(disk.text))["records"]
    assert unsent(log) == {}


def test_an_hour_that_the_database_has_not_is_kept() -> None:
    disk = Disk()
    log = a_log(disk)
    tick(log)
    log.save(HOUR + 30 * 86400)
    assert unsent(a_log(disk)) == {key(): ONE}


def test_a_clock_that_goes_back_to_a_forgotten_hour_is_another_meter() -> None:
    """The database has more of that hour than what is counted from now on."""
    disk = Disk()
    log = a_log(disk)
    tick(log)
    log.save(HOUR)
    send(log)
    log.save(NEXT + SETTLED_S + 1)
    again = a_log(disk, epoch=8)
    tick(again, HOUR + 10)
    again.save(HOUR + 10)
    assert unsent(again) == {key(meter=8): ONE}
    tick(again, HOUR + 11)
    assert {one.meter for one in again._now} == {8}


def test_what_the_database_leaves_out_is_sent_again(caplog: pytest.LogCaptureFixture) -> None:
    log = a_log(Disk())
    tick(log)
    tick(log, number=2)
    log.save(HOUR)
    for _ in range(3):
        send(log, **{uuid_of(1): "not on this host"})
    assert unsent(log) == {key(): ONE}
    assert caplog.text.count("not on this host") == 1
    assert len(send(log)) == 1
    assert unsent(log) == {}


def test_what_is_left_out_for_hours_is_given_up(caplog: pytest.LogCaptureFixture) -> None:
    log = a_log(Disk())
    tick(log)
    log.save(HOUR)
    send(log, **{uuid_of(1): "not on this host"})
    log.save(NEXT + LEFT_OUT_S)
    assert unsent(log) == {key(): ONE}
    with caplog.at_level(logging.ERROR):
        log.save(NEXT + LEFT_OUT_S + 1)
    assert unsent(log) == {}
    assert "usage of an hour is lost: not on this host" in caplog.text


def test_what_was_taken_before_it_was_left_out_is_no_loss(
    caplog: pytest.LogCaptureFixture,
) -> None:
    log = a_log(Disk())
    tick(log)
    tick(log, NEXT)
    log.save(NEXT)
    send(log)
    tick(log, NEXT + 1)
    log.save(NEXT + 1)
    send(log, **{uuid_of(1): "not on this host"})
    log.save(NEXT + wire.HOUR_S + LEFT_OUT_S + 1)
    assert caplog.text.count("usage of an hour is lost") == 1


def test_only_so_much_is_kept_for_a_database_that_takes_none() -> None:
    log = a_log(Disk())
    for hour in (2, 0, 1):
        for number in range(MOST_RECORDS // 2):
            log._now[key(number, HOUR + hour * wire.HOUR_S)] = ONE
    log.save(HOUR)
    batches = list(log.unsent())
    assert max(map(len, batches)) == wire.MAX_USAGE_RECORDS
    kept = [one for batch in batches for one in batch]
    assert len(kept) == MOST_RECORDS
    assert min(one.hour for one in kept) == NEXT
    assert kept[0].hour == NEXT
