# SPDX-License-Identifier: Apache-2.0
"""Whose calls are believed: each way in which one is not what it says changes nothing."""

import base64
import json
import tracemalloc
import zlib
from collections.abc import Callable

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from nova_vp.signing import envelope
from nova_vp.signing.envelope import (
    AHEAD_S,
    BEFORE_START_S,
    OLDEST_S,
    Refused,
    Sealed,
    Signer,
    Verifier,
)
from nova_vp.signing.keyring import ToldKeys, public_text
from nova_vp.signing.senders import MAY_CALL, MOST_NAME, ORDERED, Process, Sender, sender_of

NOW = 1.8e9
API = Sender(Process.API, "ctl1")
VP1, VP2 = Sender(Process.AGENT, "vp1"), Sender(Process.AGENT, "vp2")
AGENT = {"vp_agent", "vp_agent.vp1"}
MODE = {"mode": "enforce"}


class Clock:
    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> float:
        return self.now


class World:
    """Three senders with keys, and the agent of vp1 that listens."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.private = {one: Ed25519PrivateKey.generate() for one in (API, VP1, VP2)}
        self.ring = ToldKeys()
        self.trust(*self.private)
        self.monotonic = Clock()
        self.agent = Verifier(self.ring, self.clock, self.monotonic)

    def trust(self, *senders: Sender) -> None:
        self.ring.accept({one: (self.private[one].public_key(),) for one in senders})

    def signer(self, sender: Sender = API) -> Signer:
        return Signer(sender, self.private[sender], self.clock)

    def call(self, sender: Sender = API, to: str = "vp_agent.vp1") -> Sealed:
        return self.signer(sender).seal(to, "set_mode", MODE)

    def sign(self, signed: bytes) -> tuple[str, str]:
        """As `Sealed` has it, whatever it is."""
        signature = self.private[API].sign(signed)
        return base64.b64encode(signed).decode(), base64.b64encode(signature).decode()


@pytest.fixture
def world() -> World:
    return World()


def refused(world: World, sender: object, packed: object, signature: object, because: str) -> None:
    with pytest.raises(Refused, match=because):
        world.agent.open(sender, packed, signature, AGENT)


def unpacked(packed: str) -> str:
    return zlib.decompress(base64.b64decode(packed)).decode()


ADDRESS = f"vp-api.ctl1.{'0' * 32}"


def test_what_was_signed_arrives(world: World) -> None:
    sealed = world.signer().seal(
        "vp_agent.vp1", "set_mode", MODE, request_id="req-1", answer_to=ADDRESS
    )
    call = world.agent.open(*sealed, AGENT)
    assert (call.sender, call.method, call.arguments) == (API, "set_mode", MODE)
    assert (call.request_id, call.answer_to) == ("req-1", ADDRESS)


def test_somebody_else_signs_in_its_name(world: World) -> None:
    sealed = world.call()
    for thief in (VP1, VP2):
        forged = base64.b64encode(
            world.private[thief].sign(base64.b64decode(sealed.packed))
        ).decode()
        for claimed in (str(API), str(thief)):
            because = "fits none of its keys" if claimed == str(API) else "a call of vp-api/ctl1"
            refused(world, claimed, sealed.packed, forged, because)


@pytest.mark.parametrize(
    ("signature", "because"),
    [
        *((one, "is not 64 bytes long") for one in (None, "", "A" * 88)),
        *((one, "is not Base64") for one in ("x", 7, "é")),
        ("A" * 86 + "==", "fits none of its keys"),
    ],
)
def test_what_is_no_signature(world: World, signature: object, because: str) -> None:
    refused(world, str(API), world.call().packed, signature, f"signature {because}")


def test_every_word_of_it_is_signed(world: World) -> None:
    _, packed, signature = world.call()
    text = unpacked(packed)
    for before, after in (
        ("enforce", "observe"),
        ('"set_mode"', '"set_overrides"'),
        (str(NOW), str(NOW + 1)),
        ("vp_agent.vp1", "vp_agent"),
        ('"answer_to":""', f'"answer_to":"{ADDRESS}"'),
    ):
        assert before in text
        bent, _ = world.sign(zlib.compress(text.replace(before, after).encode()))
        refused(world, str(API), bent, signature, "fits none of its keys")


def test_for_another_recipient(world: World) -> None:
    """Who takes a call from the queue of vp2 cannot have vp1 obey it."""
    refused(world, *world.call(to="vp_agent.vp2"), "is for vp_agent.vp2")


def test_a_host_may_not_command(world: World) -> None:
    refused(world, *world.call(VP2), "a vp-agent may not call set_mode")


def test_every_call_names_who_may_make_it() -> None:
    by_agents = {method for method, who in MAY_CALL.items() if Process.AGENT in who}
    assert by_agents == {"digest", "report", "escalate", "usage", "call_elsewhere", "answer"}
    assert MAY_CALL["set_facts"] == MAY_CALL["set_modes"] == {Process.SCHEDULER}
    assert MAY_CALL["call_overlay"] == {Process.API, Process.SCHEDULER}
    assert MAY_CALL["call_elsewhere"] == {Process.AGENT}
    assert MAY_CALL["set_overlays"] == {Process.API, Process.SCHEDULER}
    assert MAY_CALL.keys() >= ORDERED


def test_a_method_that_nobody_may_call(world: World) -> None:
    refused(world, *world.signer().seal("vp_agent", "__init__", {}), "may not call __init__")


def test_unknown_retired_and_rotated_keys(world: World) -> None:
    before = world.call()
    world.trust(VP1)
    refused(world, *before, "no key of vp-api/ctl1 is in use")
    new = Ed25519PrivateKey.generate()
    old = world.private[API]
    world.ring.accept({API: (old.public_key(), new.public_key())})
    for key in (old, new):
        world.agent.open(*Signer(API, key, world.clock).seal("vp_agent", "set_mode", MODE), AGENT)
    world.ring.accept({API: (new.public_key(),)})
    refused(world, *world.call(), "fits none of its keys")


def test_a_second_time(world: World) -> None:
    sealed = world.call()
    world.agent.open(*sealed, AGENT)
    refused(world, *sealed, "has come before")


def test_after_a_restart(world: World) -> None:
    sealed = world.call()
    world.clock.now += BEFORE_START_S + 1
    world.agent = Verifier(world.ring, world.clock, world.monotonic)
    refused(world, *sealed, "before this process started")


def test_what_waited_in_a_queue_for_a_restart_is_taken(world: World) -> None:
    """A report is in order by its own numbers."""
    sealed = world.signer(VP1).seal("vp_report", "report", {"text": "{}"})
    world.clock.now += 60
    late = Verifier(world.ring, world.clock)
    for _ in range(2):
        late.open(*sealed, {"vp_report"})


@pytest.mark.parametrize(
    ("shift_s", "is_refused"),
    [(0, False), (OLDEST_S - 1, False), (OLDEST_S + 1, True), (1 - AHEAD_S, False),
     (-AHEAD_S - 1, True), (-1e9, True)],
)  # fmt: skip
def test_clocks_that_differ(world: World, shift_s: float, is_refused: bool) -> None:
    """By how far the sender's is behind ours; it says so, since that is what people must mend."""
    sealed = world.call()
    # The process runs for long; only what is recent is looked at.
    world.agent._since = 0.0
    world.clock.now += shift_s
    if is_refused:
        refused(world, *sealed, "is that clock right?")
    else:
        world.agent.open(*sealed, AGENT)


def test_a_clock_that_jumps_back_lets_nothing_come_twice(world: World) -> None:
    sealed = world.call()
    world.agent.open(*sealed, AGENT)
    world.clock.now -= 20
    refused(world, *sealed, "has come before")
    world.clock.now += OLDEST_S + AHEAD_S + 40
    world.agent.open(*world.call(), AGENT)
    world.clock.now -= OLDEST_S + AHEAD_S + 20
    refused(world, *sealed, "has come before")


def test_a_sender_whose_clock_is_ahead_is_not_heard_twice(world: World) -> None:
    """Its call is recent for so much longer."""
    sealed = world.call()
    world.clock.now -= AHEAD_S
    world.agent.open(*sealed, AGENT)
    world.clock.now += OLDEST_S + AHEAD_S
    world.monotonic.now += OLDEST_S + AHEAD_S
    refused(world, *sealed, "has come before")


def test_ids_are_forgotten_once_their_calls_are_old(world: World) -> None:
    for _ in range(3):
        world.agent.open(*world.call(), AGENT)
        world.monotonic.now += OLDEST_S + AHEAD_S + 1
    assert len(world.agent._ids[API]) == 1


def test_a_flood_of_one_sender_keeps_no_other_out(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(envelope, "MOST_IDS", 3)
    other = Sender(Process.API, "ctl2")
    world.private[other] = Ed25519PrivateKey.generate()
    world.trust(API, other)
    for _ in range(3):
        world.agent.open(*world.call(), AGENT)
    refused(world, *world.call(), "more than 3 calls")
    world.agent.open(*world.call(other), AGENT)


def test_answers_go_to_their_own_addresses_alone(world: World) -> None:
    """Else somebody could have an agent write where it likes."""
    for address in (ADDRESS.replace("ctl1", "ctl2"), ADDRESS[:-1], f"vp-api.ctl1.x.{'0' * 32}"):
        sealed = world.signer().seal("vp_agent", "set_mode", MODE, answer_to=address)
        refused(world, *sealed, f"does not wait for answers at {address}")


def without(key: str) -> Callable[[dict[str, object]], object]:
    return lambda call: {name: value for name, value in call.items() if name != key}


@pytest.mark.parametrize(
    "bend",
    [
        *map(without, ("from", "to", "method", "arguments", "at", "id", "answer_to")),
        lambda call: [call],
        lambda call: call | {"from": "root/vp1"},
        lambda call: call | {"from": "vp-agent/"},
        lambda call: call | {"from": ["vp-agent/vp1"]},
        lambda call: call | {"at": None},
        lambda call: call | {"at": "nan"},
        lambda call: call | {"at": 10**400},
        lambda call: call | {"arguments": []},
        lambda call: call | {"id": ""},
        lambda call: call | {"id": "x" * 1000},
        lambda call: call | {"method": 7},
    ],
)
def test_what_is_no_call(world: World, bend: Callable[[dict[str, object]], object]) -> None:
    text = json.dumps(bend(json.loads(unpacked(world.call().packed))))
    refused(world, str(API), *world.sign(zlib.compress(text.encode())), "not a call")


@pytest.mark.parametrize(
    ("packed", "because"),
    [
        *((one, "not a text of at most") for one in (None, 7, b"{}")),
        ("x" * (envelope.MOST_BYTES + 1), "not a text of at most"),
        *((one, "the call is not Base64") for one in ("é", "{", "[" * 9999)),
    ],
)
def test_what_is_not_packed(world: World, packed: object, because: str) -> None:
    refused(world, str(API), packed, "A" * 88, because)


@pytest.mark.parametrize(
    ("signed", "because"),
    [
        (b"", "not one compressed text"),
        (b"{}", "not a compressed ASCII text"),
        (zlib.compress(b"{}")[:-1], "not one compressed text"),
        (zlib.compress(b"{}") + b"{}", "not one compressed text"),
        (zlib.compress("é".encode()), "not a compressed ASCII text"),
        (zlib.compress(b"[" * 9999), "not a call: RecursionError"),
        (zlib.compress(b"x" * (envelope.MOST_BYTES + 1)), "not one compressed text"),
        (zlib.compress(b"x" * (1 << 26), 9), "not one compressed text"),
    ],
    ids=lambda one: len(one) if isinstance(one, bytes) else "",
)
def test_what_is_no_text_though_it_was_signed(world: World, signed: bytes, because: str) -> None:
    packed, signature = world.sign(signed)
    tracemalloc.start()
    refused(world, str(API), packed, signature, because)
    _, most_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most_bytes < 4 * envelope.MOST_BYTES


@pytest.mark.parametrize("sender", [None, 7, "", "root/vp1", "vp-api/" + "x" * 999])
def test_a_sender_that_is_none(world: World, sender: object) -> None:
    _, packed, signature = world.call()
    refused(world, sender, packed, signature, "not a call")


@pytest.mark.parametrize(
    ("name", "because"),
    [
        *(
            (name, "names no sender: give one of vp-agent/HOST")
            for name in ("", "vp1", "vp-agent", "root/vp1")
        ),
        *(
            (f"vp-agent/{host}", "is no host name: give letters")
            for host in ("", "a b", ".", "..", "x" * MOST_NAME)
        ),
    ],
)
def test_names_of_nobody(name: str, because: str) -> None:
    with pytest.raises(ValueError, match=because):
        sender_of(name)


def test_a_key_as_text_is_its_32_bytes() -> None:
    assert len(base64.b64decode(public_text(Ed25519PrivateKey.generate().public_key()))) == 32
