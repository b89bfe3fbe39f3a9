# SPDX-License-Identifier: Apache-2.0
"""The hardware: CPUs, LLC domains, memory nodes and the links between them, and what each costs.

A machine is a shape (which CPU belongs where) and figures with their sources. An LLC domain may
be smaller than a node; an SMP is one node with several domains whose private cache is the L1.
"""

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from nova_vp.core.types.topology import LlcDomain, Topology
from vp_sim.parameters import Draw, Parameter, estimated, nominal, printed, public
from vp_sim.queues import QueueForm

LINE_BYTES = 64
PAGE_BYTES = 4096


class Private(enum.Enum):
    """The last private cache: its misses are the LLC's accesses."""

    L1 = "l1"
    L2 = "l2"


@dataclass(frozen=True, slots=True)
class Shape:
    """Which CPUs share what. `first_node` keeps the thesis's numbers: node 0 is Dom0's."""

    nodes: int
    domains_per_node: int
    cores_per_domain: int
    first_node: int = 0
    private: Private = Private.L2
    threads_per_core: int = 1
    """2: each core shows itself as two CPUs, numbered as Linux does: first one of every core."""

    @property
    def cores(self) -> int:
        """Of the whole machine, the first nodes included that are not used."""
        return (self.first_node + self.nodes) * self.domains_per_node * self.cores_per_domain

    def topology(self) -> Topology:
        first = self.first_node * self.domains_per_node
        return Topology(
            domains=tuple(
                self._domain(number)
                for number in range(first, first + self.nodes * self.domains_per_node)
            )
        )

    def _domain(self, number: int) -> LlcDomain:
        first = number * self.cores_per_domain
        cores = tuple(
            frozenset(range(core, self.threads_per_core * self.cores, self.cores))
            for core in range(first, first + self.cores_per_domain)
        )
        return LlcDomain(
            id=number,
            node=number // self.domains_per_node,
            cpus=frozenset().union(*cores),
            shared_cores=cores if self.threads_per_core > 1 else (),
        )

    def core_of(self) -> dict[int, int]:
        """By CPU: CPUs of one core are siblings."""
        return {cpu: cpu % self.cores for cpu in self.topology().cpus}


@dataclass(frozen=True, slots=True)
class Hardware:
    clock_ghz: Parameter
    llc_mib: Parameter
    """Per LLC domain."""
    llc_cycles: Parameter
    node_mib: Parameter
    local_ns: Parameter
    """Memory latency of an idle machine, own node."""
    remote_ns: Parameter
    """The same, from another node's memory."""
    node_gbps: Parameter
    """What a node's memory controller can move for one guest, reads and write-backs together."""
    node_channels: Parameter
    row_conflict_ratio: Parameter
    """How much longer a line occupies a channel whose row another guest has closed."""
    row_conflict_ns: Parameter
    """Latency that such a line has on top."""
    link_gbps: Parameter
    """From one node to another, one way."""
    vcpu_move_us: Parameter
    page_copy_ns: Parameter
    page_handling_ns: Parameter
    """Per page moved, besides the copy: unmapping, shooting down TLBs, mapping again."""
    moving_cores: Parameter
    """CPUs that the host keeps busy while it moves memory, besides those of its guests."""
    moving_stall_ratio: Parameter
    """Share of its time that a guest waits for pages on their way while its memory moves."""
    small_pages_ratio: Parameter
    """Share of its performance that a guest loses for good once its memory was moved page by page:
    the large pages that it started with are gone."""
    memory_extent_mib: Parameter
    """What a hypervisor takes from one node at a time for a guest that starts."""
    intensity_weight: Parameter
    """Exponent of an application's accesses where it competes for an LLC: 1 is LRU."""
    sibling_ratio: Parameter
    """Of what a core does for one thread alone, that each of two busy threads gets."""
    queue_form: QueueForm = QueueForm.CHANNELS

    def figures(self) -> dict[str, Parameter]:
        values = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return {name: value for name, value in values.items() if isinstance(value, Parameter)}


class Costs(NamedTuple):
    """Hardware with its figures drawn."""

    clock_ghz: float
    llc_mib: float
    llc_cycles: float
    node_mib: float
    local_ns: float
    remote_ns: float
    node_gbps: float
    node_channels: float
    row_conflict_ratio: float
    row_conflict_ns: float
    link_gbps: float
    vcpu_move_us: float
    page_copy_ns: float
    page_handling_ns: float
    moving_cores: float
    moving_stall_ratio: float
    small_pages_ratio: float
    memory_extent_mib: float
    intensity_weight: float
    sibling_ratio: float


class Machine(NamedTuple):
    """What the model computes with."""

    topology: Topology
    private: Private
    costs: Costs
    queue_form: QueueForm
    core_of: Mapping[int, int]
    """By CPU; CPUs of one core are siblings."""

    @property
    def threads_per_core(self) -> int:
        return len(self.core_of) // len(set(self.core_of.values()))


WESTMERE = Hardware(
    clock_ghz=printed(2.12, "2.1.3: 3780 cycles are 1.78 us"),
    llc_mib=printed(24, "1.2: 24MB L3 per node"),
    llc_cycles=public(50, "measured L3 latencies of the Nehalem and Westmere families"),
    node_mib=printed(32768, "1.2: 32GB of DDR3 per node"),
    local_ns=public(135, "Intel on the memory latencies of the Xeon E7-4800"),
    remote_ns=public(197, "Intel on the memory latencies of the Xeon E7-4800"),
    node_gbps=estimated(25, 21, 28, "STREAM on four-socket Xeon E7-4800: about 100 GB/s in all"),
    node_channels=public(4, "Xeon E7-4800 datasheet: DDR3-1066 behind four serial links"),
    row_conflict_ratio=estimated(
        0.5, 0.3, 1.2, "figures 8 and 10: milc beside three, the worst of STREAM"
    ),
    row_conflict_ns=estimated(16, 5, 28, "DDR3-1066: 28 ns to close and open a row, partly hidden"),
    link_gbps=estimated(10, 8.5, 11.5, "of 12.8 GB/s one way of QPI at 6.4 GT/s"),
    vcpu_move_us=printed(1.78, "2.1.3"),
    page_copy_ns=printed(430, "2.1.3"),
    page_handling_ns=estimated(7000, 2000, 10000, "move_pages of other machines: 2-10 us a page"),
    moving_cores=estimated(
        8, 4, 8, "3.3.2: up to two more CPUs in a run with seven moves; Dom0 has eight (2.3)"
    ),
    moving_stall_ratio=estimated(0.8, 0.6, 1.0, "chunks of 1024 pages are locked while moved"),
    small_pages_ratio=estimated(
        0.06, 0.03, 0.08, "figure 8: 6 % in all, slides: 8 %; copies are 1 %"
    ),
    memory_extent_mib=estimated(1024, 512, 2048, "Xen's builder asks for 1 GiB pages first"),
    intensity_weight=estimated(1.0, 0.8, 1.0, "LRU is 1; an L3's replacement is near it"),
    sibling_ratio=estimated(0.62, 0.55, 0.7, "two threads of a core do 1.1 to 1.4 times as much"),
)
THESIS_SHAPE = Shape(nodes=3, domains_per_node=1, cores_per_domain=8, first_node=1)
"""Four sockets of eight cores, of which node 0 is Dom0's (2.3)."""


def machine_of(
    shape: Shape = THESIS_SHAPE, hardware: Hardware = WESTMERE, draw: Draw = nominal
) -> Machine:
    drawn = {name: draw(figure) for name, figure in hardware.figures().items()}
    return Machine(
        topology=shape.topology(),
        private=shape.private,
        costs=Costs(**drawn),
        queue_form=hardware.queue_form,
        core_of=shape.core_of(),
    )
