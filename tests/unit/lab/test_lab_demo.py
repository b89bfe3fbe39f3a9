# SPDX-License-Identifier: Apache-2.0
"""What the demo prints for people: within 100 columns, and what the cure cost the neighbour."""

from testbed.lab import demo

REASON = (
    "vp1: rejected, domain 1: predicted degradation 20.9% > 5.0%; "
    "vp2: passed, domain 0: predicted degradation 0.0% <= 5.0%"
)


def test_long_lines_are_wrapped_below_their_beginning(capsys):
    story = demo.Story("enforce")
    story.say(f"strict-1 (vp:isolation=strict) was placed on vp2: {REASON}")
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2
    assert max(map(len, lines)) <= demo.WIDTH
    start = lines[0].index("strict-1")
    assert lines[1][:start].isspace()
    assert " ".join(line[start:] for line in lines).endswith(REASON)


def test_errors_keep_their_lines_and_all_that_stands_in_brackets(capsys):
    demo.fail("demo: see [agent] memory\n" + "word " * 30)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "demo: see [agent] memory"
    assert len(lines) == 3


def test_the_neighbours_loss_is_told_with_what_was_measured():
    phase = demo.Phase(0.0, 8.0, 1.2e6, 0.0, 1.16e6, 0.998)
    told = demo.cost_told(phase, 1.45e6)
    assert "runs at 80% of its solo rate" in told
    assert "100% of its misses go to another node" in told
