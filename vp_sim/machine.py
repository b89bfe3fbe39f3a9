# SPDX-License-Identifier: Apache-2.0
"""The hardware: CPUs, LLC domains, memory nodes and the links between them, and what each costs.

A machine is a shape (which CPU belongs where) and figures with their sources. An LLC domain may
be smaller than a node; an SMP is one node with several domains whose private cache is the L1.
"""

import enum
from dataclasses import dataclass
from typing import NamedTuple

from nova_vp.core.types.topology import LlcDomain, Topology
from vp_sim.parameters import Draw, Parameter, estimated, nominal, printed, public

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

    def topology(self) -> Topology:
        return Topology(
            domains=tuple(
                LlcDomain(
                    id=number + self.first_node * self.domains_per_node,
                    node=self.first_node + number // self.domains_per_node,
                    cpus=frozenset(range(start, start + self.cores_per_domain)),
                )
                for number in range(self.nodes * self.domains_per_node)
                for start in [
                    (number + self.first_node * self.domains_per_node) * self.cores_per_domain
                ]
            )
        )


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
    """What a node's memory controller can move, reads and write-backs together."""
    node_channels: Parameter
    link_gbps: Parameter
    """From one node to another, one way."""
    vcpu_move_us: Parameter
    page_copy_ns: Parameter
    page_handling_ns: Parameter
    """Per page moved, besides the copy: unmapping, shooting down TLBs, mapping again."""
    moving_stall_ratio: Parameter
    """Share of its time that a guest waits for pages on their way while its memory moves."""

    def figures(self) -> dict[str, Parameter]:
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


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
    link_gbps: float
    vcpu_move_us: float
    page_copy_ns: float
    page_handling_ns: float
    moving_stall_ratio: float


class Machine(NamedTuple):
    """What the model computes with."""

    topology: Topology
    private: Private
    costs: Costs


WESTMERE = Hardware(
    clock_ghz=printed(2.12, "2.1.3: 3780 cycles are 1.78 us"),
    llc_mib=printed(24, "1.2: 24MB L3 per node"),
    llc_cycles=public(50, "measured L3 latencies of the Nehalem and Westmere families"),
    node_mib=printed(32768, "1.2: 32GB of DDR3 per node"),
    local_ns=public(135, "Intel on the memory latencies of the Xeon E7-4800"),
    remote_ns=public(197, "Intel on the memory latencies of the Xeon E7-4800"),
    node_gbps=estimated(21, 17.5, 25, "STREAM on four-socket Xeon 7500 and E7: 70-100 GB/s in all"),
    node_channels=public(4, "Xeon E7-4800 datasheet"),
    link_gbps=estimated(10, 8.5, 11.5, "of 12.8 GB/s one way of QPI at 6.4 GT/s"),
    vcpu_move_us=printed(1.78, "2.1.3"),
    page_copy_ns=printed(430, "2.1.3"),
    page_handling_ns=estimated(4600, 1000, 10000, "move_pages of other machines: 2-10 us a page"),
    moving_stall_ratio=estimated(0.3, 0.1, 0.6, "chunks of 1024 pages are locked while moved"),
)
THESIS_SHAPE = Shape(nodes=3, domains_per_node=1, cores_per_domain=8, first_node=1)
"""Four sockets of eight cores, of which node 0 is Dom0's (2.3)."""


def machine_of(
    shape: Shape = THESIS_SHAPE, hardware: Hardware = WESTMERE, draw: Draw = nominal
) -> Machine:
    drawn = {name: draw(figure) for name, figure in hardware.figures().items()}
    return Machine(shape.topology(), shape.private, Costs(**drawn))
