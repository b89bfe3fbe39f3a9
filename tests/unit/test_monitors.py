# SPDX-License-Identifier: Apache-2.0
"""What the monitors of an overlay decide: from what was seen to calls."""

from nova_vp.core.types.overlay import CallResource, Direction, Nack, Verb
from nova_vp.monitors.backlog import BacklogSettings, NetworkBacklog
from nova_vp.monitors.base import make_in_order
from nova_vp.monitors.cpu_waiting import CpuWaiting, WaitingSettings
from nova_vp.monitors.request_classes import RequestClasses, RequestSettings
from nova_vp.monitors.stream_classes import StreamClasses, StreamSettings

RUBIS = {"browse": ("web", "app"), "bid": ("app", "db")}
BROWSING, BIDDING, MIXED = (
    {"browse": 90, "bid": 10},
    {"browse": 10, "bid": 90},
    {"browse": 5, "bid": 5},
)


def made(monitor, now_s, nack=None):
    """The calls in short, each answered alike."""
    calls = list(monitor.wanted(now_s))
    for call in calls:
        monitor.answered(call, nack, now_s)
    return [
        (call.verb.value, call.server, *([call.direction.value] if call.verb is Verb.TUNE else ()))
        for call in calls
    ]


def requests(**settings):
    return RequestClasses(RUBIS, RequestSettings(**{"steps_down": 2, **settings}))


def test_a_frequent_class_lowers_the_servers_that_it_does_not_need():
    monitor = requests()
    assert made(monitor, 0.0) == []
    monitor.see(BROWSING, 5.0)
    assert made(monitor, 5.0) == [("tune", "db", "down")] * 2
    assert made(monitor, 6.0) == []


def test_another_frequent_class_raises_its_servers_after_the_others_were_lowered():
    monitor = requests(memory_s=1.0)
    monitor.see(BROWSING, 5.0)
    made(monitor, 5.0)
    monitor.see(BIDDING, 15.0)
    expected = [("tune", "web", "down")] * 2 + [("tune", "db", "up")] * 2
    assert made(monitor, 15.0) == expected


def test_needed_servers_may_be_raised_above_what_they_had():
    monitor = requests(steps_up=1, steps_down=0, memory_s=0.1)
    monitor.see(BROWSING, 1.0)
    assert made(monitor, 1.0) == [("tune", "app", "up"), ("tune", "web", "up")]
    monitor.see(BIDDING, 9.0)
    assert made(monitor, 9.0) == [("tune", "web", "down"), ("tune", "db", "up")]


def test_types_that_alternate_quickly_change_nothing():
    monitor = requests(memory_s=15.0)
    for number in range(20):
        monitor.see(BROWSING if number % 2 else BIDDING, float(number))
        if number > 2:
            assert made(monitor, float(number)) == []
        else:
            made(monitor, float(number), nack=Nack.TOO_SOON)


def test_a_class_stays_frequent_until_it_clearly_is_not():
    monitor = requests(memory_s=0.1, retry_s=0.0)
    monitor.see({"browse": 55, "bid": 45}, 1.0)
    assert made(monitor, 1.0) == []
    monitor.see(BROWSING, 2.0)
    assert made(monitor, 2.0, nack=Nack.NO_ROOM) == [("tune", "db", "down")] * 2
    monitor.see({"browse": 55, "bid": 45}, 3.0)
    assert made(monitor, 3.0, nack=Nack.NO_ROOM) == [("tune", "db", "down")] * 2
    monitor.see({"browse": 45, "bid": 55}, 4.0)
    assert made(monitor, 4.0) == []


def test_all_goes_back_where_no_class_was_frequent_for_a_while():
    monitor = requests(memory_s=10.0, steps_up=1)
    monitor.see(BROWSING, 1.0)
    made(monitor, 1.0)
    monitor.see({"browse": 900, "bid": 1000}, 9.0)
    assert made(monitor, 10.5) == []
    back = [("tune", one, "down") for one in ("app", "web")] + [("tune", "db", "up")] * 2
    assert made(monitor, 11.0) == back
    assert made(monitor, 100.0) == []
    monitor.see({"bid": 9000}, 101.0)
    raised = [("tune", one, "up") for one in ("app", "db")]
    assert made(monitor, 101.0) == [("tune", "web", "down")] * 2 + raised


def test_requests_of_unknown_classes_and_silence_say_nothing():
    monitor = requests()
    monitor.see({"search": 100}, 1.0)
    assert made(monitor, 1.0) == []


def test_a_needed_server_borrows_once_until_its_lease_ends():
    monitor = requests(borrows=1, loan_s=10.0, steps_down=0)
    monitor.see(BROWSING, 1.0)
    assert made(monitor, 1.0) == [("borrow", "app"), ("borrow", "web")]
    assert made(monitor, 5.0) == []
    assert made(monitor, 11.5) == [("borrow", "app"), ("borrow", "web")]


def test_what_was_tuned_and_borrowed_is_renewed_within_its_lease():
    monitor = requests(borrows=1, loan_s=60.0, renew_s=25.0)
    monitor.see(BROWSING, 1.0)
    made(monitor, 1.0)
    assert made(monitor, 25.0) == []
    assert made(monitor, 26.0) == [("renew", "app"), ("renew", "db"), ("renew", "web")]
    assert made(monitor, 50.0) == []
    assert made(monitor, 61.5) == [("renew", "app"), ("renew", "db"), ("renew", "web")]


def test_what_is_renewed_too_late_is_asked_for_anew():
    monitor = requests(renew_s=25.0)
    monitor.see(BROWSING, 1.0)
    made(monitor, 1.0)
    assert made(monitor, 30.0, nack=Nack.NOTHING_TO_RENEW) == [("renew", "db")]
    assert made(monitor, 31.0) == [("tune", "db", "down")] * 2


def test_what_was_granted_in_part_is_renewed_too():
    monitor = requests(renew_s=25.0, retry_s=5.0)
    monitor.see(BROWSING, 1.0)
    first, second = monitor.wanted(1.0)
    monitor.answered(first, None, 1.0)
    monitor.answered(second, Nack.NO_ROOM, 1.0)
    assert made(monitor, 10.0, nack=Nack.NO_ROOM) == [("tune", "db", "down")]
    renewed, repeated = monitor.wanted(26.0)
    assert (renewed.verb, repeated.verb) == (Verb.RENEW, Verb.TUNE)


def test_a_server_that_holds_nothing_is_not_renewed():
    monitor = requests(renew_s=25.0, memory_s=1.0)
    monitor.see(BROWSING, 1.0)
    made(monitor, 1.0)
    monitor.see(BIDDING, 20.0)
    made(monitor, 20.0)
    assert made(monitor, 60.0) == [("renew", "web")]


def test_a_server_that_is_not_needed_any_more_gives_back_what_it_borrowed():
    monitor = requests(borrows=1, memory_s=0.1)
    monitor.see(BROWSING, 1.0)
    made(monitor, 1.0)
    monitor.see(BIDDING, 9.0)
    assert made(monitor, 9.0)[0] == ("release", "web")


def test_what_was_tuned_goes_back_with_what_was_borrowed():
    monitor = requests(borrows=1, steps_up=2, memory_s=0.1)
    monitor.see(BROWSING, 1.0)
    made(monitor, 1.0)
    monitor.see(BIDDING, 9.0)
    of_web = [one for one in made(monitor, 9.0) if one[1] == "web"]
    assert of_web == [("release", "web"), *[("tune", "web", "down")] * 2]


def test_after_a_refusal_a_server_is_left_alone_for_a_while():
    monitor = requests(retry_s=5.0)
    monitor.see(BROWSING, 1.0)
    assert made(monitor, 1.0, nack=Nack.NO_ROOM)
    assert made(monitor, 3.0) == []
    assert made(monitor, 6.5) == [("tune", "db", "down")] * 2


def test_a_backlog_over_its_limit_triggers_once_per_lease():
    monitor = NetworkBacklog(BacklogSettings(lease_s=0.25))
    monitor.see("player", 128.0, 0)
    assert made(monitor, 1.0) == []
    monitor.see("player", 128.5, 0)
    assert made(monitor, 1.0) == [("trigger", "player")]
    assert made(monitor, 1.2) == []
    assert made(monitor, 1.3) == [("trigger", "player")]


def test_packets_that_are_lost_trigger_and_old_losses_do_not():
    monitor = NetworkBacklog()
    monitor.see("player", 0.0, 70)
    assert made(monitor, 1.0) == []
    monitor.see("player", 0.0, 71)
    assert made(monitor, 2.0) == [("trigger", "player")]
    monitor.see("player", 0.0, 71)
    assert made(monitor, 3.0) == []


def test_a_refused_trigger_is_repeated_later_and_a_server_that_is_gone_is_forgotten():
    monitor = NetworkBacklog(BacklogSettings(retry_s=2.0))
    monitor.see("player", 200.0, 0)
    assert made(monitor, 1.0, nack=Nack.NO_CREDIT)
    assert made(monitor, 2.0) == []
    assert made(monitor, 3.0)
    monitor.forget("player")
    assert made(monitor, 9.0) == []


def test_a_server_that_comes_back_has_lost_nothing_yet_and_waits_for_nothing():
    monitor = NetworkBacklog(BacklogSettings(retry_s=60.0))
    monitor.see("player", 200.0, 70)
    assert made(monitor, 1.0, nack=Nack.NO_CREDIT) == [("trigger", "player")]
    monitor.forget("player")
    monitor.see("player", 0.0, 99)
    assert made(monitor, 2.0) == [], "those packets were lost before"
    monitor.see("player", 200.0, 99)
    assert made(monitor, 2.0) == [("trigger", "player")]


def test_fast_streams_go_up_slow_ones_down_and_others_nowhere():
    monitor = StreamClasses(StreamSettings(steps=2))
    monitor.see("slow", 300, 20)
    monitor.see("fast", 1000, 25)
    monitor.see("both", 1000, 20)
    up, down = Direction.UP.value, Direction.DOWN.value
    expected = [("tune", "slow", down)] * 2 + [("tune", "fast", up)] * 2
    assert made(monitor, 0.0) == expected
    assert made(monitor, 9.0) == []
    monitor.see("fast", 0, 0)
    assert made(monitor, 9.0) == [("tune", "fast", down)] * 2


def test_a_stream_whose_rates_disagree_gives_back_what_it_had():
    monitor = StreamClasses()
    monitor.see("fast", 1000, 25)
    made(monitor, 0.0)
    monitor.see("fast", 1000, 15)
    assert made(monitor, 1.0) == [("tune", "fast", "down")]
    assert made(monitor, 9.0) == []


def test_a_stream_that_varies_around_a_limit_is_not_tuned_up_and_down():
    monitor = StreamClasses()
    monitor.see("film", 510, 24.5)
    assert made(monitor, 0.0) == [("tune", "film", "up")]
    for now_s, kbit_s, fps in ((2.0, 490, 23.5), (4.0, 510, 24.0), (6.0, 455, 22.0)):
        monitor.see("film", kbit_s, fps)
        assert made(monitor, now_s) == []
    monitor.see("film", 445, 21.0)
    assert made(monitor, 8.0) == [("tune", "film", "down")] * 2
    monitor.see("film", 490, 23.5)
    assert made(monitor, 10.0) == []


def test_the_threads_of_the_network_are_tuned_in_tandem_where_that_is_set():
    monitor = StreamClasses(StreamSettings(io_steps=2))
    monitor.see("fast", 1000, 25)
    calls = monitor.wanted(0.0)
    assert [(call.resource, call.direction) for call in calls] == [
        (CallResource.CPU, Direction.UP),
        *[(CallResource.IO, Direction.UP)] * 2,
    ]
    made(monitor, 0.0)
    assert made(monitor, 1.0) == []
    monitor.see("fast", 0, 0)
    assert [call.resource for call in monitor.wanted(2.0)] == [call.resource for call in calls]
    assert all(call.direction is Direction.DOWN for call in monitor.wanted(2.0))


def test_of_a_stream_what_was_granted_in_part_is_renewed_too():
    monitor = StreamClasses(StreamSettings(io_steps=1, renew_s=10.0))
    monitor.see("fast", 1000, 25)
    of_cpu, of_io = monitor.wanted(0.0)
    monitor.answered(of_cpu, None, 0.0)
    monitor.answered(of_io, Nack.NO_ROOM, 0.0)
    assert [call.verb for call in monitor.wanted(10.0)] == [Verb.RENEW, Verb.TUNE]


def test_a_refused_tune_of_a_stream_is_repeated_later():
    monitor = StreamClasses(StreamSettings(retry_s=5.0))
    monitor.see("fast", 1000, 25)
    assert made(monitor, 0.0, nack=Nack.NO_ROOM)
    assert made(monitor, 4.0) == []
    assert made(monitor, 5.0)


def test_after_a_refused_step_the_other_steps_of_it_wait_and_all_else_is_called_for():
    monitor = StreamClasses(StreamSettings(steps=3, io_steps=2))
    monitor.see("fast", 1000, 25)
    calls = []

    def make(call):
        calls.append(call.resource)
        return Nack.NO_ROOM if call.resource is CallResource.CPU and len(calls) == 2 else None

    assert make_in_order(monitor, monitor.wanted(0.0), make, lambda: 1.0)
    cpu, io = CallResource.CPU, CallResource.IO
    assert calls == [cpu, cpu, io, io]
    assert monitor.wanted(5.9) == []  # It was told when it was refused.
    assert [call.resource for call in monitor.wanted(6.0)] == [cpu, cpu]


def test_where_all_is_refused_nothing_was_granted():
    monitor = StreamClasses(StreamSettings(steps=3))
    monitor.see("fast", 1000, 25)
    assert not make_in_order(monitor, monitor.wanted(0.0), lambda _: Nack.NO_ROOM, lambda: 0.0)


def test_what_a_stream_was_granted_is_renewed_and_begun_anew_once_it_ended():
    monitor = StreamClasses(StreamSettings(renew_s=10.0))
    monitor.see("fast", 1000, 25)
    made(monitor, 0.0)
    assert made(monitor, 9.0) == []
    assert made(monitor, 10.0) == [("renew", "fast")]
    assert made(monitor, 19.0) == []
    assert made(monitor, 20.0, nack=Nack.NOTHING_TO_RENEW) == [("renew", "fast")]
    assert made(monitor, 20.0) == [("tune", "fast", "up")]


def test_a_server_with_a_stream_that_is_gone_is_forgotten():
    monitor = StreamClasses()
    monitor.see("fast", 1000, 25)
    made(monitor, 0.0)
    monitor.see("fast", 0, 0)
    monitor.forget("fast")
    assert made(monitor, 0.0) == []
    monitor.see("fast", 1000, 25)
    assert made(monitor, 0.0) == [("tune", "fast", "up")]


def test_a_stream_that_comes_back_is_judged_as_a_new_one():
    monitor = StreamClasses(StreamSettings(retry_s=60.0))
    monitor.see("film", 510, 24.5)
    assert made(monitor, 0.0, nack=Nack.NO_ROOM) == [("tune", "film", "up")]
    monitor.forget("film")
    monitor.see("film", 490, 23.5)
    assert made(monitor, 1.0) == [("tune", "film", "down")], "it is not fast, and was not refused"


def waiting(monitor, *ratios, idle_cores=0.0):
    for ratio in ratios:
        monitor.see("db", ratio, idle_cores)


def test_who_waits_for_some_samples_borrows_a_cpu_at_a_time():
    monitor = CpuWaiting(WaitingSettings(samples=3, most_cpus=2))
    waiting(monitor, 0.5, 0.5)
    assert made(monitor, 1.0) == []
    waiting(monitor, 0.5)
    assert made(monitor, 1.0) == [("borrow", "db")]
    assert made(monitor, 1.0) == []
    waiting(monitor, 0.5, 0.5, 0.5)
    assert made(monitor, 2.0) == [("borrow", "db")]
    waiting(monitor, 0.5, 0.5, 0.5)
    assert made(monitor, 3.0) == []


def test_what_was_borrowed_is_released_once_it_is_idle_for_some_samples():
    monitor = CpuWaiting(WaitingSettings(samples=2, idle_cores=1.5))
    waiting(monitor, 0.5, 0.5)
    made(monitor, 1.0)
    waiting(monitor, 0.0, idle_cores=2.0)
    assert made(monitor, 2.0) == []
    waiting(monitor, 0.0, idle_cores=2.0)
    assert made(monitor, 3.0) == [("release", "db")]
    assert made(monitor, 4.0) == []


def test_a_loan_that_ended_by_itself_is_forgotten_and_a_refusal_is_waited_out():
    monitor = CpuWaiting(WaitingSettings(samples=1, most_cpus=1, lease_s=10.0, retry_s=5.0))
    waiting(monitor, 0.5)
    assert made(monitor, 0.0, nack=Nack.NO_ROOM)
    waiting(monitor, 0.5)
    assert made(monitor, 3.0) == []
    assert made(monitor, 5.0) == [("borrow", "db")]
    waiting(monitor, 0.5)
    assert made(monitor, 9.0) == []
    assert made(monitor, 15.0) == [("borrow", "db")]


def test_who_comes_back_has_borrowed_nothing_and_was_not_refused():
    monitor = CpuWaiting(WaitingSettings(samples=1, most_cpus=1, retry_s=60.0))
    waiting(monitor, 0.5)
    assert made(monitor, 0.0) == [("borrow", "db")]
    for nack in (Nack.NO_ROOM, None):
        monitor.forget("db")
        waiting(monitor, 0.5)
        assert made(monitor, 1.0, nack=nack) == [("borrow", "db")]
