# SPDX-License-Identifier: Apache-2.0
"""Signed calls as anybody with an account can make them up: who may call what, and what is
otherwise about one that somebody has no right to.

Who may call what stands here again, so that both tables must be right.
"""

import functools
import hashlib
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from nova_vp import wire
from nova_vp.signing.envelope import AHEAD_S, OLDEST_S, Sealed
from nova_vp.signing.keyring import public_text
from nova_vp.signing.senders import Process, Sender
from tests.fuzz import seeds
from tests.fuzz.dice import DEEP, ODD_TEXTS, UUIDS, Dice
from tests.messages import profiles_text

API, SCHEDULER = Sender(Process.API, "ctl1"), Sender(Process.SCHEDULER, "ctl1")
NOVA = Sender(Process.NOVA_SCHEDULER, "ctl1")
VP1, VP2 = Sender(Process.AGENT, "vp1"), Sender(Process.AGENT, "vp2")
SENDERS = {str(one): one for one in (API, SCHEDULER, NOVA, VP1, VP2)}
CONTROLLERS = (API, SCHEDULER, NOVA)
STRANGER = "vp-agent/vp9"
"""It has keys, and nobody knows them."""
KEYS = ("k0", "k1", "k2")
"""Of each sender; which of them are in use changes."""
MAY = {
    "agent": {
        "set_mode": (API,),
        "accept": (API,),
        "undo": (API,),
        "set_overrides": (API, SCHEDULER),
        "set_facts": (SCHEDULER,),
        "set_modes": (SCHEDULER,),
        "report_latency": (API,),
        "republish": (SCHEDULER,),
        "republish_digest": (SCHEDULER, NOVA),
    },
    "reports": {"report": (VP1, VP2), "scheduler_started": (NOVA,)},
    "digests": {"digest": (VP1, VP2), "profiles": (SCHEDULER,), "host_keys": (SCHEDULER,)},
}
"""By receiver and method."""
OFTEN = frozenset({"digest", "report", "scheduler_started", "report_latency"})
"""They may come again, since they wait in queues while their receivers start."""
NAMES = {
    "agent": ("vp_agent.vp1", "vp_agent"),
    "reports": ("vp_report", "vp_report.ctl1"),
    "digests": ("vp_digest", "vp_digest.ctl1"),
}
FOREIGN = ("vp_agent.vp2", "vp_escalation", "vp_answer", "", "vp_agent.vp1 ", "VP_AGENT.VP1", "#")
PARAMETERS: dict[str, set[str]] = {
    "set_mode": {"mode"},
    "accept": {"action_id"},
    "undo": {"action_id"},
    "republish": {"within_s"},
    "republish_digest": {"within_s"},
    "scheduler_started": set(),
}
"""Others have a text."""
AGES_S = (
    0.0,
    0.0,
    0.0,
    1.0,
    60.0,
    OLDEST_S - 1,
    OLDEST_S + 2,
    1e6,
    -AHEAD_S - 2,
    -1e9,
    1 - AHEAD_S,
)
BENDS = ("letter", "cut", "more", "other", "swap", "odd", "long", "deep")
PACKED = ("plain", "cut", "more", "twice", "many", "bomb")
LONG = 7 << 20
ROUND = 200
"""Seconds, so that a receiver finds them recent."""
BEGAN_S = seeds.NOW_MS / 1000


@functools.cache
def private_key(sender: str, label: str) -> Ed25519PrivateKey:
    return Ed25519PrivateKey.from_private_bytes(
        hashlib.sha256(f"{sender} {label}".encode()).digest()
    )


def made(dice: Dice) -> Any:
    """A payload: a call, one that came before, what somebody has signed, or a change of keys."""
    if dice.is_so(0.03):
        some = {name: [one for one in KEYS if dice.is_so(0.6)] for name in SENDERS}
        return {"keys": some}
    receiver = dice.pick(tuple(MAY))
    if dice.is_so(0.1):
        return {"again": dice.pick((0, 0, 0, 1, 5, 40, 100, 300)), "receiver": receiver}
    method = dice.pick(tuple(MAY[receiver]))
    if dice.is_so(0.1):
        return _a_raw_one(dice, receiver)
    call = {
        "receiver": receiver,
        "from": str(dice.pick(MAY[receiver][method])),
        "key": "k0",
        "claims": None,
        "to": NAMES[receiver][0],
        "method": method,
        "arguments": _arguments(dice, method),
        "age_s": 0.0,
        "id": f"call{dice.number}",
        "answer_to": "",
        "bend": None,
        "times": 1,
    }
    for _ in range(dice.pick((0, 0, 1, 1, 1, 2))):
        call.update(_hostile(dice, call))
    return call


def is_own(sender: str, address: str) -> bool:
    return address == f"{sender.replace('/', '.')}.{'0' * 32}"


def host_keys_text(labels: Mapping[str, Sequence[str]]) -> str:
    keys = [
        [host, public_text(private_key(f"vp-agent/{host}", one).public_key())]
        for host, some in labels.items()
        for one in some
    ]
    return wire.encode(wire.HOST_KEYS, {"v": wire.VERSION, "sent": 1.0, "keys": keys})


def _arguments(dice: Dice, method: str) -> dict[str, Any]:
    if method == "set_mode":
        return {"mode": dice.pick(("observe", "advise", "enforce", "x"))}
    if method in ("accept", "undo"):
        return {"action_id": dice.pick(("p1", "a1", "?"))}
    if method.startswith("republish"):
        return {"within_s": dice.pick((0, 5.0, 1e9))}
    if method == "scheduler_started":
        return {}
    return {"text": _text(dice, method)}


def _text(dice: Dice, method: str) -> str:
    if method == "set_overrides":
        return dice.json_text(dice.bent(seeds.overrides(dice)))
    if method == "set_facts":
        return dice.json_text(dice.bent(seeds.nova_facts(dice)))
    if method == "set_modes":
        return dice.json_text(dice.bent(seeds.modes(dice)))
    if method == "report_latency":
        return dice.json_text(dice.bent(seeds.a_latency(dice)))
    if method == "report":
        return dice.json_text(dice.bent(seeds.a_report(dice)))
    if method == "digest":
        return dice.json_text(dice.bent(seeds.a_host_digest(dice)))
    if method == "host_keys":
        hosts = ("vp1", "vp2")
        return host_keys_text({host: [one for one in KEYS if dice.is_so(0.7)] for host in hosts})
    return profiles_text((dice.pick(ODD_TEXTS[:1] + UUIDS), "", dice.randint(0, 9)))


def _a_raw_one(dice: Dice, receiver: str) -> Any:
    method = dice.pick(tuple(MAY[receiver]))
    sender = dice.pick(MAY[receiver][method])
    call = {
        "from": str(sender),
        "to": NAMES[receiver][0],
        "method": method,
        "arguments": _arguments(dice, method),
        "at": BEGAN_S + dice.number % ROUND,
        "id": f"raw{dice.number}",
        "request_id": "",
        "answer_to": "",
    }
    text = dice.json_text(dice.bent(call))
    how = dice.pick(PACKED) if dice.is_so(0.2) else "good"
    return {"receiver": receiver, "from": str(sender), "raw": text, "how": how}


def packed(how: str, text: str) -> bytes:
    """As it is signed."""
    raw = text.encode("utf-8", "surrogatepass")
    whole = zlib.compress(raw)
    forms: dict[str, Callable[[], bytes]] = {
        "good": lambda: whole,
        "plain": lambda: raw,
        "cut": lambda: whole[: len(whole) // 2],
        "more": lambda: whole + raw,
        "twice": lambda: zlib.compress(whole),
        "many": lambda: whole * 3,
        "bomb": _bomb,
    }
    return forms[how]()


@functools.cache
def _bomb() -> bytes:
    """256 MiB of blanks."""
    packer, blanks = zlib.compressobj(9), b" " * (1 << 20)
    return b"".join([*(packer.compress(blanks) for _ in range(256)), packer.flush()])


def _hostile(dice: Dice, call: Mapping[str, Any]) -> dict[str, Any]:
    """One thing about it is otherwise."""
    others = (*SENDERS, STRANGER)
    roll = dice.randint(0, 9)
    if roll == 0:
        return {"from": dice.pick(others)}
    if roll == 1:
        return {"claims": dice.pick((*others, *ODD_TEXTS, None, 7, [], {}, "vp-api/" + "x" * 5000))}
    if roll == 2:
        return {"key": dice.pick(KEYS)}
    if roll == 3:
        return {"to": dice.pick((*FOREIGN, *NAMES["agent"], *NAMES["digests"]))}
    if roll == 4:
        return {"age_s": dice.pick(AGES_S)}
    if roll == 5:
        return {"id": f"call{dice.randint(max(0, dice.number - 200), dice.number)}"}
    if roll == 6:
        return {"times": dice.pick((2, 3))}
    if roll == 7:
        own = f"{call['from'].replace('/', '.')}.{'0' * 32}"
        return {"answer_to": dice.pick((own, own, own[:-1], f"vp-api.ctl2.{'0' * 32}", "#"))}
    if roll == 8:
        return {"arguments": _wrong(dice, call["arguments"])}
    field = dice.pick(Sealed._fields)
    return {"bend": [field, dice.pick(BENDS), dice.random(), dice.odd()]}


def _wrong(dice: Dice, arguments: dict[str, Any]) -> dict[str, Any]:
    deep: Any = 1
    for _ in range(dice.pick((1, 50, 400))):
        deep = [deep] if dice.is_so(0.5) else {"": deep}
    return dice.pick(
        (
            {**arguments, dice.pick(("call", "self", "extra", "")): dice.pick((None, 1, "x"))},
            {},
            {name: deep for name in arguments},
            {name: "[" * DEEP for name in arguments},
            {name: "x" * LONG for name in arguments} if dice.is_so(0.05) else {"x": "y"},
        )
    )


def bent(sent: dict[str, Any], field: str, how: str, where: float, odd: Any) -> dict[str, Any]:
    """One of the three texts."""
    text = str(sent[field])
    at = int(where * len(text))
    changed: dict[str, Any] = {
        "letter": text[:at] + ("A" if text[at : at + 1] != "A" else "B") + text[at + 1 :],
        "cut": text[:at],
        "more": text[:at] + str(odd)[:100] + text[at:],
        "other": text.swapcase(),
        "swap": text[at:] + text[:at],
        "odd": odd,
        "long": text + "A" * LONG if where < 0.1 else text * 2,
        "deep": "[" * DEEP,
    }
    return {**sent, field: changed[how]}
