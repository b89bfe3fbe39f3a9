# SPDX-License-Identifier: Apache-2.0
"""The figure of the whole in the documentation: `python -m tests.architecture_figure` draws it.

Two tables, boxes and arrows. `tests/unit/docs/test_architecture_figure.py` holds them against the
code: every file that is named exists, and every method of the message bus is on an arrow.
"""

from pathlib import Path
from typing import NamedTuple
from xml.sax.saxutils import escape

PICTURE = Path(__file__).parents[1] / "doc/source/images/architecture.svg"
WIDTH, HEIGHT = 960, 800
LINE = 17
"""Between two lines of text."""
STYLE = (
    "text{font:13px sans-serif;fill:#222}.title{font-weight:bold}.code{font:12px monospace}"
    ".label{fill:#444;font-size:12px}rect{stroke:#555;fill:#fff}.ours{fill:#e8f1fa}"
    ".part{fill:#fff}.bus{fill:#f3ead7}.host{fill:#f6f6f6;stroke-dasharray:5 4}"
    "path{stroke:#555;fill:none;marker-end:url(#head)}.both{marker-start:url(#head)}"
)


class Box(NamedTuple):
    """A program or a part of one. Lines that name files are set as code."""

    kind: str
    x: int
    y: int
    width: int
    height: int
    title: str
    lines: tuple[str, ...] = ()


class Arrow(NamedTuple):
    points: tuple[tuple[int, int], ...]
    label_at: tuple[int, int] = (0, 0)
    label: tuple[str, ...] = ()
    is_both: bool = False


BOXES = (
    Box("", 10, 10, 270, 68, "operators, tenants", ("vp_client", "vp_dashboard")),
    Box("", 300, 10, 270, 68, "applications of tenants", ("vp_client", "or HTTP")),
    Box("", 640, 10, 310, 68, "Nova, Placement", ("their REST APIs",)),
    Box("ours", 10, 140, 190, 102, "vp-api", ("any number", "api/vp_api")),
    Box("", 270, 140, 130, 102, "database", ("nova_vp/db",)),
    Box(
        "ours", 470, 140, 230, 102, "vp-scheduler",
        ("any number", "vp_scheduler/ingest", "vp_scheduler/escalation", "vp_scheduler/relay"),
    ),
    Box(
        "", 730, 140, 220, 102, "nova-scheduler",
        (
            "each process", "vp_scheduler/filters.py", "vp_scheduler/weighers.py",
            "vp_scheduler/placement",
        ),
    ),
    Box(
        "bus", 10, 350, 940, 50, "RabbitMQ: signed messages",
        ("nova_vp/wire  nova_vp/signing  nova_vp/rpcapi.py",),
    ),
    Box("host", 10, 470, 940, 320, "each compute host"),
    Box("ours", 30, 500, 660, 200, "vp-agent"),
    Box(
        "part", 45, 525, 300, 62, "a tick: read, decide, apply",
        ("vp_agent/loop/tick.py",),
    ),
    Box("part", 375, 525, 300, 62, "what leaves the host", ("vp_agent/publish",)),
    Box(
        "part", 45, 612, 300, 78, "the decision",
        ("nova_vp/core/step.py", "nova_vp/core/controllers"),
    ),
    Box(
        "part", 375, 612, 300, 78, "host and applications",
        ("vp_agent/drivers", "vp_agent/monitors", "vp_agent/latency"),
    ),
    Box("", 725, 500, 210, 62, "nova-compute", ("nova_vp/compute/monitor.py",)),
    Box(
        "", 30, 740, 905, 40, "libvirt, QEMU and the kernel: servers, their threads, memory, "
        "cgroups, resctrl, counters",
    ),
)  # fmt: skip

TO_AGENT_FROM_API = (
    ("set_mode", "modes of hosts"),
    ("accept", "accept"),
    ("reject", "reject"),
    ("undo", "undo"),
    ("set_overrides", "overrides"),
    ("set_overlays", "overlays"),
    ("call_overlay", "calls"),
    ("report_latency", "latency"),
)
TO_AGENT_FROM_SCHEDULER = (
    ("tell_facts", "facts of Nova"),
    ("tell_modes", "modes"),
    ("tell_overrides", "overrides"),
    ("tell_overlays", "overlays"),
    ("call_overlay", "calls"),
    ("prepare_migration", "migrations"),
    ("end_migration", "migrations"),
    ("republish", "send again"),
    ("republish_digest", "send again"),
)
TO_SCHEDULER = (
    ("report", "reports"),
    ("usage", "usage"),
    ("escalate", "escalations"),
    ("call_elsewhere", "calls for other hosts"),
    ("scheduler_started", "a nova-scheduler started"),
)
TO_NOVA_SCHEDULER = (("digest", "digests"), ("profiles", "profiles"), ("host_keys", "host keys"))
Messages = tuple[tuple[str, str], ...]
"""Methods of `nova_vp/rpcapi.py`, each with the word for it on an arrow."""
MESSAGES = (TO_AGENT_FROM_API, TO_AGENT_FROM_SCHEDULER, TO_SCHEDULER, TO_NOVA_SCHEDULER)


def words(messages: Messages, per_line: int) -> tuple[str, ...]:
    found = list(dict.fromkeys(word for _, word in messages))
    rows = [found[at : at + per_line] for at in range(0, len(found), per_line)]
    return tuple(", ".join(row) + ("," if row is not rows[-1] else "") for row in rows)


ARROWS = (
    Arrow(((100, 78), (100, 138)), (108, 112), ("REST",)),
    Arrow(((330, 78), (330, 110), (160, 110), (160, 138)), (190, 104), ("latency, calls",)),
    Arrow(((202, 190), (268, 190)), is_both=True),
    Arrow(((402, 190), (468, 190)), is_both=True),
    Arrow(((660, 138), (660, 80)), (668, 104), ("facts, traits,", "live migrations")),
    Arrow(((60, 242), (60, 348)), (68, 270), words(TO_AGENT_FROM_API, 3)),
    Arrow(((500, 242), (500, 348)), (300, 270), words(TO_AGENT_FROM_SCHEDULER, 2)),
    Arrow(((530, 350), (530, 244)), (538, 270), words(TO_SCHEDULER, 2)),
    Arrow(((880, 350), (880, 244)), (775, 290), words(TO_NOVA_SCHEDULER, 2)),
    Arrow(((120, 400), (120, 523)), (128, 436), ("commands",)),
    Arrow(((525, 525), (525, 402)), (533, 436), ("digest, report, escalation, usage",)),
    Arrow(((345, 556), (373, 556))),
    Arrow(((195, 587), (195, 610)), is_both=True),
    Arrow(((345, 580), (373, 630)), is_both=True),
    Arrow(((675, 545), (723, 545)), (695, 538), ("file",)),
    Arrow(((525, 690), (525, 738)), is_both=True),
    Arrow(((830, 562), (830, 738)), is_both=True),
)


def is_code(line: str) -> bool:
    return "/" in line or "_" in line


def text(x: int, y: int, line: str, style: str = "") -> str:
    name = f' class="{style}"' if style else ""
    return f'<text x="{x}" y="{y}"{name}>{escape(line)}</text>'


def box(one: Box) -> list[str]:
    kind = f' class="{one.kind}"' if one.kind else ""
    size = f'width="{one.width}" height="{one.height}" rx="4"'
    lines = [f'<rect x="{one.x}" y="{one.y}" {size}{kind}/>']
    lines.append(text(one.x + 10, one.y + 19, one.title, "title"))
    for number, line in enumerate(one.lines, start=1):
        y = one.y + 19 + LINE * number
        lines.append(text(one.x + 10, y, line, "code" if is_code(line) else ""))
    return lines


def arrow(one: Arrow) -> list[str]:
    route = " L".join(f"{x} {y}" for x, y in one.points)
    both = ' class="both"' if one.is_both else ""
    x, y = one.label_at
    labels = [text(x, y + LINE * at, line, "label") for at, line in enumerate(one.label)]
    return [f'<path d="M{route}"{both}/>', *labels]


def drawn() -> str:
    head = (
        '<marker id="head" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="8" markerHeight="8" '
        'orient="auto-start-reverse" markerUnits="userSpaceOnUse">'
        '<polygon points="0,0 10,5 0,10" fill="#555"/></marker>'
    )
    body = [line for one in BOXES for line in box(one)]
    body += [line for one in ARROWS for line in arrow(one)]
    opening = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}">'
    background = f'<path d="M0 0H{WIDTH}V{HEIGHT}H0z" style="fill:#fff;stroke:none;marker:none"/>'
    defs = f"<defs>{head}</defs><style>{STYLE}</style>"
    return "\n".join([opening, defs, background, *body, "</svg>", ""])


if __name__ == "__main__":
    PICTURE.write_text(drawn())
