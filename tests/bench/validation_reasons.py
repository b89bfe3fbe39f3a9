# SPDX-License-Identifier: Apache-2.0
"""Why rows are not met, where that may be."""

from collections.abc import Iterable, Mapping

from tests.bench.validation_rows import Row

_REMOTE_START = (
    "with memory from all nodes no run under default Xen comes near to running alone: three "
    "quarters of Voldemort's memory are remote, and remote memory alone costs it 24 %"
)
_BEST = (
    "with memory from all nodes no run under default Xen comes near to running alone, and its best "
    "run, which all is measured by, is easier to beat than the thesis's"
)
_FULL_CACHE = (
    "shares of an LLC go by who brings in how much: a matrix-mult with less CPU fills it later, "
    "but as far, and costs Voldemort almost as much"
)
_STEADY = (
    "nothing differs from run to run but the third and fourth core: the two applications start in "
    "one place, in step, and noise is of counters only"
)
_MOVES = (
    "a move of memory takes seconds of one core here, and neither its misses nor its cycles are "
    "counted to any guest; local, which moves it, keeps its memory near"
)
_DEMAND = (
    "2140 to 2370 of 2400 % would be matrix-mult and word-count busy almost all the time, and then "
    "two cores would make them twice as slow, where figure 13 prints 25 %"
)
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
        "loses 1 or 2 %; in scenario 4 matrix-mult loses a third of what Voldemort does"
    ),
    ("figure 11", "Voldemort, MF beside one matrix-mult, capped by 10 %"): _FULL_CACHE,
    ("figure 11", "Voldemort, CPI gained by that"): _FULL_CACHE,
    ("figure 1", "4-apps: worst of voldemort, baseline"): _REMOTE_START,
    ("figure 1", "7-apps: worst of voldemort, baseline"): _REMOTE_START,
    ("figure 1", "4-apps and 7-apps: best of voldemort, baseline"): _REMOTE_START,
    ("table 1", "stream-spec: PE, llc over baseline, less 1"): _BEST,
    ("2.3", "stream-spec: worst of stream, baseline"): (
        "no order of 40 puts two STREAMs on one socket and most of the memory of three on one "
        "node: drawn by extents of 1 GiB it is too even. Placed so by hand, a STREAM takes 2.8 "
        "times as long"
    ),
    ("2.3.1", "stream-spec: worst of all, llc"): (
        "in some orders it leaves two STREAMs on one node, as the exchange would win less than a "
        "fifth of the mean misses of a node"
    ),
    ("table 1", "voldemort-mapreduce: PE, llc over baseline, less 1"): _BEST,
    ("table 1", "streaming-mapreduce: PE, llc over baseline, less 1"): (
        "its domains are so even that noise and phases set off exchanges, which cost it large pages"
    ),
    ("2.3", "streaming-mapreduce: worst of streaming, baseline"): (
        "printed are bit-rates that clients see of films sent ahead of time; here the server is a "
        "job whose time grows with its cycles per instruction"
    ),
    ("figure 13", "Voldemort beside it"): _FULL_CACHE,
    ("figure 13", "matrix-mult, random"): (
        "half of its third and fourth core are far from its memory, and it needs them in a third "
        "of its time"
    ),
    ("figure 13", "spread of voldemort-1, random"): _STEADY,
    ("figure 13", "spread of matrix-mult, random"): _STEADY,
    ("figure 13", "spread of voldemort-1, local"): _STEADY,
    ("table 2", "vCPU moves, random"): (
        "here it takes a random core where one is asked for; Xen's scheduler also moves vCPUs that "
        "have enough"
    ),
    ("table 2", "CPU %, local"): _DEMAND,
    ("table 2", "PE, cheap over local, less 1"): _MOVES,
    ("table 2", "sum of MPKI of local, random and cheap"): _MOVES,
    ("table 2", "CPI of local, random and cheap"): _MOVES,
    ("3.3.2", "Voldemort at most, cheap"): (
        "printed are response times at the 95th percentile, which show the worst phase of a "
        "neighbour; here the server is a job that its neighbours' phases slow on the average"
    ),
    ("3.3.2", "spread of the MapReduce applications, local: up to"): (
        "whether a guest finds its third core at home or brings its memory after it differs by "
        "order, and the latter costs it large pages"
    ),
}
"""Of rows that may be unmet, by source and what they are about."""


def reasoned(row: Row) -> Row:
    return row._replace(reason=REASONS.get((row.source, row.what), ""))


def without_row(rows: Iterable[Row]) -> frozenset[tuple[str, str]]:
    """Reasons that no unmet row needs any more."""
    return REASONS.keys() - {(row.source, row.what) for row in rows if not row.is_met}
