# SPDX-License-Identifier: Apache-2.0
"""Why rows of whole mixes are not met, where that may be."""

from collections.abc import Mapping

_BEST = (
    "with memory from all nodes no run under default Xen comes near to running alone, and its best "
    "run, which all is measured by, is easier to beat than the thesis's"
)
_TAIL = (
    "no order of 40 puts two STREAMs on one socket and most of the memory of three on one node: "
    "drawn by extents of 1 GiB it is too even. The placement itself costs as much as printed"
)
_RESPONSES = (
    "printed are bit-rates that clients see of films sent ahead of time; here the server is a job "
    "whose time grows with its cycles per instruction"
)
_LATENCIES = (
    "printed are response times at the 95th percentile, which show the worst phase of a neighbour; "
    "here the server is a job that its neighbours' phases slow on the average"
)
_DEMAND = (
    "2140 of 2400 % would be matrix-mult and word-count busy almost all the time, and then two "
    "cores would make them twice as slow, where figure 13 prints 25 %"
)
REASONS: Mapping[tuple[str, str], str] = {
    ("stream-spec", "PE, llc"): _BEST,
    ("stream-spec", "PE, llc over baseline, less 1"): _BEST,
    ("stream-spec", "worst of stream, baseline"): _TAIL,
    ("stream-spec", "worst of all, llc"): (
        "in 7 of 40 orders it leaves two STREAMs on one node, as the exchange would win less than "
        "a fifth of the mean misses of a node; in the others nobody loses more than 24 %"
    ),
    ("stream-spec", "spread, llc"): (
        "pairs are formed by noisy misses: which of mcf, lbm and milc ends beside whom differs by "
        "run"
    ),
    ("voldemort-mapreduce", "PE, llc"): _BEST,
    ("voldemort-mapreduce", "PE, llc over baseline, less 1"): _BEST,
    ("streaming-mapreduce", "PE, llc"): _BEST,
    ("streaming-mapreduce", "PE, llc over baseline, less 1"): (
        "its domains are so even that noise and phases set off exchanges, which cost it large pages"
    ),
    ("streaming-mapreduce", "worst of streaming, baseline"): _RESPONSES,
    ("merlin", "vCPU moves, random"): (
        "here it takes a random core where one is asked for; Xen's scheduler also moves vCPUs that "
        "have enough"
    ),
    ("merlin", "memory moves, local"): "guests ask for more than they find at home in fewer orders",
    ("merlin", "Voldemort at most, local"): _LATENCIES,
    ("merlin", "Voldemort at most, cheap"): _LATENCIES,
    ("merlin", "Voldemort, median, random"): _LATENCIES,
    ("merlin", "matrix-mult, median, random"): (
        "its memory stays where it started, and a third of its cores come to be far from it"
    ),
    ("merlin", "sum of MPKI"): (
        "printed with the misses of the moves themselves, which take seconds here: the order of "
        "random before cheap is met, local keeps its memory near and its cache"
    ),
    ("merlin", "CPU %, cheap"): _DEMAND,
    ("merlin", "spread"): (
        "whether a guest finds its third core at home or brings its memory after it differs by "
        "order, and the latter costs it large pages"
    ),
}
"""Of rows that may be unmet, by mix and what it is about."""
