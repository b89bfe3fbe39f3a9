# SPDX-License-Identifier: Apache-2.0
"""Signed calls on the bus, as anybody with an account can send them: to an agent, to vp-scheduler
and to nova-scheduler.

Nothing gets to an endpoint unless the one whose key is in use has signed just this for just this
receiver a moment ago, and it has not come before; and who does that is heard at once, whatever came
before.
"""

import base64
import inspect
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from nova_vp import wire
from nova_vp.rpcserver import _Delivery
from nova_vp.server_override import ServerOverride, overrides_text
from nova_vp.signing.envelope import AHEAD_S, BEFORE_START_S, OLDEST_S, Call, Signer, Verifier
from nova_vp.signing.keyring import FirstKnown, ToldKeys, public_text
from nova_vp.signing.senders import Sender, sender_of
from tests.fuzz import agents
from tests.fuzz.dice import Dice
from tests.fuzz.made_calls import (
    API,
    BEGAN_S,
    CONTROLLERS,
    KEYS,
    LONG,
    MAY,
    NAMES,
    OFTEN,
    PARAMETERS,
    SCHEDULER,
    SENDERS,
    VP1,
    VP2,
    bent,
    host_keys_text,
    is_own,
    made,
    packed,
    private_key,
)
from tests.fuzz.oracle import expect
from tests.fuzz.subject import ACCEPTED, REFUSED
from tests.messages import digest_text, report_text
from vp_agent.loop.command_server import Endpoint, FactsEndpoint
from vp_agent.loop.state import StateFolder
from vp_agent.loop.told_facts import ToldFacts
from vp_scheduler.ingest.report_queue import ReportQueue
from vp_scheduler.ingest.service import ReportEndpoint
from vp_scheduler.placement.host_view import HostView
from vp_scheduler.placement.listener import DigestEndpoint


class Clock:
    def __init__(self) -> None:
        self.now_s = BEGAN_S

    def __call__(self) -> float:
        return self.now_s


class Answers:
    """Implements what of `rpcapi.AnswerAPI` is used."""

    def __init__(self) -> None:
        self.given: list[tuple[str, Mapping[str, Any]]] = []

    def answer(self, address: str, arguments: Mapping[str, Any]) -> None:
        wire.compact(arguments)
        self.given.append((address, arguments))


class Witness:
    """An endpoint, and what got to it."""

    def __init__(self, endpoint: object, seen: list[Call]) -> None:
        self._endpoint, self._seen = endpoint, seen

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._endpoint, name)
        if not callable(method):
            return method

        def seen(call: Call, **arguments: Any) -> Any:
            self._seen.append(call)
            return method(call, **arguments)

        seen.__signature__ = inspect.signature(method)  # type: ignore[attr-defined]
        return seen


@dataclass(slots=True)
class Receiver:
    delivery: _Delivery
    state: Callable[[], Any]
    """All that a call can change there."""
    seen: list[Call]
    answers: Answers
    ids: dict[tuple[str, str], float] = field(default_factory=dict)
    """Of whom and which: when it got through."""
    spent: set[tuple[str, str]] = field(default_factory=set)
    """All that came."""


class Sent(NamedTuple):
    """A call on the wire."""

    payload: Any
    to: str
    """Which receiver."""
    signed_at: float
    text: dict[str, Any]

    @property
    def id(self) -> tuple[str, str]:
        return self.payload["from"], self.payload["id"]


class Calls:
    name, weight = "calls", 16

    def __init__(self, folder: Path) -> None:
        self._clock = Clock()
        self._sent: list[Sent] = []
        self._in_use = {name: {"k0"} for name in SENDERS}
        self._ring, self._told = ToldKeys(), ToldKeys()
        self._told_in_use: dict[str, set[str]] = {str(VP1): {"k0"}, str(VP2): {"k0"}}
        self._tell_ring()
        self._told.accept({one: (private_key(str(one), "k0").public_key(),) for one in (VP1, VP2)})
        self._control = agents.a_control(folder / "called")
        self._facts = ToldFacts(StateFolder(str(folder / "called")), self._clock)
        self._inbox = ReportQueue()
        self._view = HostView(180.0, clock=self._clock)
        self._receivers = {
            "agent": self._receiver(
                "agent",
                (Endpoint(self._control, agents.Publisher()), FactsEndpoint(self._facts)),
                lambda: (self._control.commanded(), self._control.servers.told, self._facts.told),
            ),
            "reports": self._receiver(
                "reports",
                (ReportEndpoint(self._inbox, clock=lambda: datetime.now(UTC)),),
                lambda: len(self._inbox),
            ),
            "digests": self._receiver(
                "digests",
                (DigestEndpoint(self._view, self._told),),
                lambda: (dict(self._view.read()[0]), self._told.of(VP1), self._told.of(VP2)),
            ),
        }

    def _receiver(
        self, name: str, endpoints: Sequence[object], state: Callable[[], Any]
    ) -> Receiver:
        keys = FirstKnown(self._controllers(), self._told) if name == "digests" else self._ring
        seen: list[Call] = []
        answers = Answers()
        verifier = Verifier(keys, self._clock, self._clock)
        witnesses = [Witness(one, seen) for one in endpoints]
        delivery = _Delivery(verifier, NAMES[name], witnesses, answers)  # type: ignore[arg-type]
        return Receiver(delivery, state, seen, answers)

    def _controllers(self) -> ToldKeys:
        """What stands in a file, which nobody changes here."""
        known = ToldKeys()
        known.accept({one: (private_key(str(one), "k0").public_key(),) for one in CONTROLLERS})
        return known

    def _tell_ring(self) -> None:
        self._ring.accept(
            {
                SENDERS[name]: tuple(private_key(name, one).public_key() for one in sorted(labels))
                for name, labels in self._in_use.items()
            }
        )

    def make(self, dice: Dice) -> Any:
        return made(dice)

    def take(self, payload: Any) -> str:
        self._clock.now_s += 1.0
        if "keys" in payload:
            self._in_use = {name: set(payload["keys"].get(name, ())) for name in SENDERS}
            self._tell_ring()
            return ACCEPTED
        if "raw" in payload:
            return self._take_raw(payload)
        if "again" in payload:
            if len(self._sent) <= payload["again"]:
                return REFUSED
            one = self._sent[-1 - payload["again"]]
            return self._deliver(one._replace(to=payload["receiver"]))
        sent = self._sealed(payload)
        self._sent.append(sent)
        return self._deliver(sent)

    def _sealed(self, payload: Any) -> "Sent":
        sender = sender_of(payload["from"])
        signed_at = self._clock.now_s - payload["age_s"]
        signer = Signer(sender, private_key(payload["from"], payload["key"]), lambda: signed_at)
        words = {name: payload[name] for name in ("id", "answer_to")}
        sealed = signer.seal(payload["to"], payload["method"], payload["arguments"], **words)
        text: dict[str, Any] = sealed._asdict()
        if payload["claims"] is not None:
            text["sender"] = payload["claims"]
        if payload["bend"] is not None:
            text = bent(text, *payload["bend"])
        return Sent(payload, payload["receiver"], signed_at, text)

    def _deliver(self, sent: "Sent") -> str:
        receiver = self._receivers[sent.to]
        before = receiver.state()
        for _ in range(sent.payload["times"]):
            receiver.delivery.deliver({}, **sent.text)
        passed = receiver.seen[:]
        receiver.seen.clear()
        self._check(sent, receiver, passed)
        if not passed:
            expect(receiver.state() == before, "what is refused changes something")
            self._right_order()
        answers = 1 if passed and sent.payload["answer_to"] else 0
        most = answers * len(passed)
        expect(len(receiver.answers.given) == most, f"{len(receiver.answers.given)} answers")
        receiver.answers.given.clear()
        return ACCEPTED if passed else REFUSED

    def _take_raw(self, payload: Any) -> str:
        """Its sender has signed whatever that is."""
        name, receiver = payload["from"], self._receivers[payload["receiver"]]
        before = receiver.state()
        signed = packed(payload["how"], payload["raw"])
        signature = private_key(name, "k0").sign(signed)
        texts = (base64.b64encode(one).decode("ascii") for one in (signed, signature))
        receiver.delivery.deliver({}, name, *texts)
        for call in receiver.seen:
            is_known = "k0" in self._keys_of(payload["receiver"], name)
            is_own = is_known and str(call.sender) == name and call.to in NAMES[payload["receiver"]]
            expect(is_own, f"{name} has signed {call}")
            expect(call.sender in MAY[payload["receiver"]][call.method], f"it may not {call}")
            self._note_id(receiver, call)
        if not receiver.seen:
            expect(receiver.state() == before, "what is refused changes something")
            self._right_order()
            return REFUSED
        receiver.seen.clear()
        receiver.answers.given.clear()
        return ACCEPTED

    def _note_id(self, receiver: Receiver, call: Call) -> None:
        receiver.spent.add((str(call.sender), call.id))
        receiver.ids[str(call.sender), call.id] = self._clock.now_s
        if call.method == "host_keys":
            self._hear_keys(call.arguments["text"])

    def _check(self, sent: "Sent", receiver: Receiver, passed: list[Call]) -> None:
        payload = sent.payload
        is_right = self._is_right(sent) and self._is_new(sent, receiver)
        most = 0 if not is_right else payload["times"] if payload["method"] in OFTEN else 1
        # May be refused: it is too long, or its sender has spent its id on what nobody takes.
        is_doubtful = len(str(payload["arguments"])) >= LONG or sent.id in receiver.spent
        least = 0 if payload["bend"] is not None or is_doubtful else most
        receiver.spent.add(sent.id)
        expect(least <= len(passed) <= most, f"{len(passed)} of {least} to {most} got through")
        for call in passed:
            signed = (sender_of(payload["from"]), payload["to"], payload["method"], payload["id"])
            expect((call.sender, call.to, call.method, call.id) == signed, f"it became {call}")
            is_same = json.dumps(call.arguments) == json.dumps(payload["arguments"])
            expect(is_same, "it has other arguments now")
            self._note_id(receiver, call)

    def _is_right(self, sent: "Sent") -> bool:
        payload = sent.payload
        return (
            payload["key"] in self._keys_of(sent.to, payload["from"])
            and payload["claims"] in (None, payload["from"])
            and SENDERS.get(payload["from"]) in MAY[sent.to].get(payload["method"], ())
            and payload["to"] in NAMES[sent.to]
            and -AHEAD_S <= self._clock.now_s - sent.signed_at <= OLDEST_S
            and set(payload["arguments"]) == PARAMETERS.get(payload["method"], {"text"})
            and (not payload["answer_to"] or is_own(payload["from"], payload["answer_to"]))
        )

    def _keys_of(self, receiver: str, sender: str) -> set[str]:
        if receiver != "digests":
            return self._in_use.get(sender, set())
        return (
            {"k0"} if SENDERS.get(sender) in CONTROLLERS else self._told_in_use.get(sender, set())
        )

    def _is_new(self, sent: "Sent", receiver: Receiver) -> bool:
        if sent.payload["method"] in OFTEN:
            return True
        came_at = receiver.ids.get(sent.id, -math.inf)
        is_late = sent.signed_at < BEGAN_S - BEFORE_START_S
        return not is_late and self._clock.now_s - came_at > OLDEST_S + AHEAD_S

    def _hear_keys(self, text: Any) -> None:
        """What a well-formed one says counts from now on."""
        try:
            message = wire.decode(wire.HOST_KEYS, text)
        except wire.BadMessage:
            return
        known = {
            public_text(private_key(name, one).public_key()): (name, one)
            for name in (str(VP1), str(VP2))
            for one in KEYS
        }
        self._told_in_use = {}
        for host, key in message["keys"]:
            name, label = known.get(key, ("", ""))
            if name == f"vp-agent/{host}":
                self._told_in_use.setdefault(name, set()).add(label)

    def _right_order(self) -> None:
        """It works, directly after what did not."""
        if not (labels := sorted(self._in_use[str(API)])):
            return
        told = self._control.servers.told
        wanted = ServerOverride(priority=1 + told.version % 7)
        version = max(told.version + 1, round(self._clock.now_s * 1000))
        text = overrides_text(version, {agents.ORDERED: wanted})
        signer = Signer(API, private_key(str(API), labels[0]), self._clock)
        sealed = signer.seal("vp_agent.vp1", "set_overrides", {"text": text})
        receiver = self._receivers["agent"]
        receiver.delivery.deliver({}, **sealed._asdict())
        obeyed = self._control.servers.told.servers.get(agents.ORDERED)
        expect(obeyed == wanted, f"vp-api ordered {wanted}, and the agent has {obeyed}")
        receiver.seen.clear()

    def settle(self) -> None:
        """Whatever keys are in use now, those of tomorrow are believed."""
        self.take({"keys": {name: ["k0"] for name in SENDERS}})
        self._clock.now_s += OLDEST_S + AHEAD_S
        self._right_order()
        self._send_right("digests", SCHEDULER, "host_keys", host_keys_text({"vp1": ["k0"]}))
        newest = (1, int(self._clock.now_s))
        self._send_right("digests", VP1, "digest", digest_text("vp1", order=newest))
        expect(self._view.get("vp1") is not None, "a good digest is not kept")
        self._send_right("reports", VP1, "report", report_text("vp1"))
        waiting = {one.host for one in self._inbox.take(10**6)}
        expect("vp1" in waiting, "a good report is not kept")

    def _send_right(self, to: str, sender: Sender, method: str, text: str) -> None:
        signer = Signer(sender, private_key(str(sender), "k0"), self._clock)
        receiver = self._receivers[to]
        receiver.delivery.deliver({}, **signer.seal(NAMES[to][0], method, {"text": text})._asdict())
        expect(len(receiver.seen) == 1, f"a right {method} of {sender} is refused")
        receiver.seen.clear()
        if method == "host_keys":
            self._hear_keys(text)
