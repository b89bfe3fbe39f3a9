# SPDX-License-Identifier: Apache-2.0
"""What the model of applications computes with.

Printed figures have the section of their source: T is the thesis of 2013, I the paper on x86-IXP.
Fitted ones were fitted to what is printed of the case without coordination. All others are assumed.
The page "The model of overlays" says which of them were changed after a run with coordination.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Rubis:
    """Three tiers on an island of two CPUs each (T 4.5.2.1)."""

    vcpus: int = 3
    """Printed, of each tier."""
    capped_cores: float = 1.5
    """Printed: RUBiS-3/2."""
    sessions: int = 640
    """Assumed: of the throughput. Printed are 180 to 480, of which 480 do not need 126 req/s."""
    knee_sessions: int = 360
    """Printed: that the capped tiers sustain."""
    think_s: float = 4.6
    """Fitted: 360 sessions at 75 req/s pause and wait for 4.8 s."""
    phase_s: float = 120.0
    """Assumed: for so long one class of requests is the more frequent one."""
    frequent_ratio: float = 0.85
    """Assumed: its share of the requests then."""
    browse_ms: tuple[float, float, float] = (23.5, 18.0, 0.5)
    """Fitted: CPU that a request for browsing takes of the web, application and database tier."""
    bid_ms: tuple[float, float, float] = (4.0, 20.0, 23.5)
    """Fitted: of one that bids."""
    host_ms: float = 6.0
    """Assumed: CPU of Dom0 for each request, in an island of its own."""


@dataclass(frozen=True, slots=True)
class RubisOnIxp:
    """Three tiers of one vCPU beside Dom0 on two CPUs (I 3.1)."""

    sessions: int = 120
    """Fitted, with the pause: 68 req/s."""
    think_s: float = 0.3
    """Fitted."""
    phase_s: float = 10.0
    """Assumed: its requests alternate more quickly."""
    frequent_ratio: float = 0.85
    """Assumed."""
    browse_ms: tuple[float, float, float] = (11.7, 6.4, 0.5)
    bid_ms: tuple[float, float, float] = (2.1, 9.6, 10.1)
    """Fitted: 68 req/s. Printed: with 1.33 cores."""
    host_ms: float = 4.0
    """Assumed: of Dom0 for each request, besides its polling."""


@dataclass(frozen=True, slots=True)
class Barrier:
    """16 processes in two servers of 8 vCPUs, each beside Blackscholes, on 4 CPUs (T 4.5.2.2).
    A process that waits at a barrier spins, as in MPI libraries; the source does not say it."""

    vcpus: int = 8
    cpus: int = 4
    """Printed, both."""
    steps: int = 14
    """Fitted, with the next one: 1580 ms."""
    step_ms: float = 26.0
    """CPU of each process between two barriers."""
    noise_ratio: float = 0.2
    """Assumed: by how much it varies, each way."""
    blackscholes_ms: float = 1657.0
    """Fitted: CPU of each of its threads: 4120 ms."""


@dataclass(frozen=True, slots=True)
class Players:
    """Two players of one vCPU beside Dom0 on two CPUs; the first decodes a stream (I 3, 3.2)."""

    sent_ratio: float = 1.12
    """Assumed: of its rate a stream is sent; a little above the best that is printed, 22 of 20
    frames/s, since the players play as fast as they can."""
    frame_ms: float = 27.8
    """Fitted: 24.0 frames/s with a third of the CPUs."""
    disk_frame_ms: float = 8.33
    """Fitted: 80 frames/s with another third."""
    buffer_kib: float = 256.0
    """Assumed: what does not fit is lost. Printed: 128 KiB trigger."""
    slow_fps: float = 20.0
    """Printed, with the next three, of figure 6. The stream of table 3 is the fast one."""
    slow_kbit_s: float = 300.0
    fast_fps: float = 25.0
    fast_kbit_s: float = 1000.0
    slow_frame_ms: float = 35.1
    """Assumed, with the next one: with default weights each decodes 5 % less than its rate.
    Printed: neither keeps it."""
    fast_frame_ms: float = 28.1


@dataclass(frozen=True, slots=True)
class Parsec:
    """Three servers of 8 vCPUs on islands of 6 CPUs, and Dom0's, under a cap of 20 of 24 cores
    (T 4.5.1)."""

    vcpus: int = 8
    island_cpus: int = 6
    cap_cores: float = 20.0
    """Printed, all three."""
    remote_slowdown_ratio: float = 1.35
    """Assumed: a thread away from its memory takes as much longer as milc (T 2.1.2, figure 6a)."""
    phases: int = 12
    """Assumed: phases that compute, each up to a barrier, with idle ones between."""
    thread_s: float = 20.6
    idle_s: float = 28.0
    """Fitted, both: one pool completes in 11.88 minutes and uses 9.38 cores."""
    apart_s: float = 5.0
    """Assumed: they begin one after the other."""
    noise_ratio: float = 0.2
    """Assumed: by how much the CPU of a thread and a pause vary, each way."""


@dataclass(frozen=True, slots=True)
class LastCpu:
    """A web server and a word count of 4 vCPUs on islands of 2 CPUs; one of 4 CPUs lends two
    (T 4.5.3)."""

    request_ms: float = 1.33
    """Fitted: 1500 requests/s keep two CPUs busy."""
    refused_ms: float = request_ms * 3 / 23
    """Assumed: the three packets of a handshake, of 23 for 14 KB with acknowledgements and close.
    Printed is only that more than 1500 requests/s lower the throughput."""
    requests_per_s: float = 6000.0
    """Assumed: four times that."""
    timeout_s: float = 1.0
    """Assumed: for so long a client waits; an answer that comes later is lost."""
    backlog: int = 512
    """Assumed: requests that the server accepts at one time."""
    blackscholes_threads: int = 2
    """Printed."""
    lender_quota: float = 0.35
    """Assumed: of each thread. Printed: three of its four cores are available."""
