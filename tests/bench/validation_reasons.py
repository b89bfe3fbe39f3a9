# SPDX-License-Identifier: Apache-2.0
"""Why rows are not met, where that may be."""

from collections.abc import Iterable, Mapping

from tests.bench.validation_rows import Row

REASONS: Mapping[tuple[str, str], str] = {
    ("figure 6a", "milc, scenarios 1 to 4: most in 3"): (
        "in scenario 4 the memory of P is remote as in scenario 3, and three others share its "
        "link: no queue makes that faster than scenario 3"
    ),
    ("figure 8", "milc, each of four: vCPUs and memory sent apart"): (
        "the first stays, with its memory, and pays for no move; the others are moved one after "
        "the other, and whoever is last waits for two with remote memory"
    ),
    ("2.1.2", "Voldemort and matrix-mult in scenario 2, in scenario 4"): (
        "in scenario 2 one controller has hardly any queue with two such applications, and each "
        "loses about 1 %, matrix-mult somewhat more than half of that; in scenario 4 it loses a "
        "third of what Voldemort does"
    ),
    ("figure 1", "4-apps: worst of voldemort, baseline"): (
        "remote memory and a neighbour come together in some orders: the source prints 15 % with "
        "two matrix-mult and 27 % with three, and one beside it is enough here"
    ),
    ("table 1", "stream-spec: PE, llc over baseline, less 1"): (
        "in the median order three of the four GiB of a VM are remote, which costs STREAM 31 % "
        "against local memory; llc brings all of it home once, at 7 %"
    ),
    ("2.3", "stream-spec: worst of stream, baseline"): (
        "no order of 40 puts two STREAMs on one socket and most of the memory of three on one "
        "node: drawn by extents of 1 GiB it is too even. Placed so by hand, a STREAM takes 2.8 "
        "times as long"
    ),
    ("2.3.1", "stream-spec: worst of all, llc"): (
        "25 % is a milc whose best order of 40 under default Xen was a lucky one; mcf, of which "
        "15 % are printed, loses 24 % where it ends beside a STREAM"
    ),
    ("figure 13", "matrix-mult, random"): (
        "half of its third and fourth core are far from its memory, and it needs them in a third "
        "of its time"
    ),
    ("figure 13", "spread of matrix-mult, random"): (
        "nothing differs from run to run but the third and fourth core: the two applications start "
        "in one place, in step, and noise is of counters only"
    ),
    ("figure 13", "variability of Voldemort's response times, random"): (
        "with both cores far, and most of the time with one of them near, matrix-mult disturbs it "
        "little: only the loudest tenth of the seconds differs much"
    ),
    ("table 2", "vCPU moves, random"): (
        "here it takes a random core where one is asked for; Xen's scheduler also moves vCPUs that "
        "have enough"
    ),
    ("table 2", "sum of MPKI of local, random and cheap"): (
        "the misses of who copies memory are counted to no guest; random, whose printed sum is "
        "145, spreads matrix-mult over more caches here, in each of which others lose some"
    ),
    ("3.3.2", "Voldemort at most, local"): (
        "two matrix-mult of four cores meet beside one VM of Voldemort where the second brings its "
        "memory after its third core; with one of them, as in figure 13, it loses 17 %"
    ),
    ("3.3.2", "spread of the MapReduce applications, local: up to"): (
        "whether a guest finds its third core at home or brings its memory after it differs by "
        "order; the latter costs it large pages and the wait for pages, and leaves two of three "
        "cores far from its memory"
    ),
}
"""Of rows that may be unmet, by source and what they are about."""


def reasoned(row: Row) -> Row:
    return row._replace(reason=REASONS.get((row.source, row.what), ""))


def without_row(rows: Iterable[Row]) -> frozenset[tuple[str, str]]:
    """Reasons that no unmet row needs any more."""
    return REASONS.keys() - {(row.source, row.what) for row in rows if not row.is_met}
