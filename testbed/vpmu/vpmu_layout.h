// SPDX-License-Identifier: Apache-2.0
/*
 * The shared memory of vpmu, version 1: what the plugin writes and everybody else may read.
 * Only the layout lives here, no behaviour. `vpmu layout --json` prints these offsets, so readers in
 * other languages test themselves against the compiler's word instead of repeating it by hand.
 *
 * One directory per modelled host holds:
 *   vm.<name>      one per VM, <name> is the libvirt domain name: vpmu_vm_header, then one vpmu_slot per vCPU
 *   llc.<socket>   tags of the last-level cache that all VMs of the directory share on that socket
 *   mc.<node>      load of the modelled memory controller of that node, which may serve several sockets
 *   error.<name>   text: why the VM of that name runs without vpmu
 *
 * Rules for readers of vm.<name>
 *   - Everything is little-endian and naturally aligned. Check magic and version before all else: the magic
 *     is stored last, so a file without it is still being made.
 *   - Counters are cumulative u64 since `started_ns`, each written by its vCPU thread alone: an aligned 8-byte
 *     read is never torn, no lock is needed. Different counters are read a few nanoseconds apart.
 *   - A restarted VM gets a new file (new inode, other `started_ns`), so its counters begin at zero. A map of
 *     the old file stays readable and frozen: `closed` is 1 after an orderly end. After a kill it stays 0, but the
 *     flock(LOCK_EX) that QEMU holds on the file for life is gone: a reader that gets LOCK_SH has a dead VM's file.
 *   - While `phase` is VPMU_PHASE_BOOT nothing is counted: the guest boots unpaced and unmodelled.
 *   - Sampled counters are already scaled up by `sample`.
 *
 * Rule for writers: a field may be added in reserved bytes, where 0 means what its absence meant; whatever else
 * changes takes another version.
 */
#ifndef VPMU_LAYOUT_H
#define VPMU_LAYOUT_H

#include <stddef.h>
#include <stdint.h>

#define VPMU_VM_MAGIC 0x00314d56554d5056ull  /* "VPMUVM1\0" in the file's byte order */
#define VPMU_LLC_MAGIC 0x31434c4c554d5056ull /* "VPMULLC1" */
#define VPMU_MC_MAGIC 0x3130434d554d5056ull  /* "VPMUMC01" */
#define VPMU_VERSION 1u

#define VPMU_DEFAULT_DIR "/run/vpmu"
#define VPMU_NAME_BYTES 256
#define VPMU_MAX_VCPUS 64u
#define VPMU_MAX_SOCKETS 8u

/* Guest-physical memory is given to nodes in chunks of 2 MiB; 8192 of them cover 16 GiB, more wraps around. */
#define VPMU_CHUNK_SHIFT 21u
#define VPMU_CHUNKS 8192u
#define VPMU_NODE_UNKNOWN 0xffu /* not touched yet: belongs to the node of the first vCPU that misses on it */

enum vpmu_phase {
    VPMU_PHASE_BOOT = 0,     /* full speed, nothing counted, shared caches untouched */
    VPMU_PHASE_MEASURED = 1, /* modelled, counted, and paced when mhz > 0 */
};

struct vpmu_vm_header {
    uint64_t magic; /* stored last, with release order */
    uint32_t version;
    uint32_t header_bytes; /* the first slot begins here */
    uint32_t slot_bytes;
    uint32_t vcpu_count;
    int32_t pid; /* of QEMU, in QEMU's own pid namespace */
    uint32_t vm_id; /* 1..255, owner part of the shared LLC's tags */
    uint64_t started_ns; /* CLOCK_REALTIME; tells one life of a name from the next */
    uint32_t sample; /* one of so many cache sets is modelled; counters are scaled up by it */
    uint32_t chunk_shift;
    uint32_t chunk_count;
    uint32_t chunk_map_offset; /* of chunk_node, from the start of the file */
    uint32_t socket_count; /* a socket here is what shares one LLC */
    uint32_t has_shadow; /* 0: shadow_llc_misses stays 0 */
    uint32_t closed; /* 1 after QEMU's orderly end */
    uint32_t phase; /* enum vpmu_phase */
    uint32_t mhz; /* live control: modelled clock that pacing keeps; 0 = run as fast as the host can */
    uint32_t cpi_x100; /* live control: cycles per instruction without stalls, times 100 */
    uint32_t node_count; /* memory nodes; 0: as many as sockets, see node_of_socket */
    uint8_t node_of_socket[VPMU_MAX_SOCKETS]; /* meaningless when node_count is 0: socket n is on node n */
    uint8_t reserved0[36];
    char name[VPMU_NAME_BYTES]; /* NUL-terminated */
    uint8_t reserved1[4096 - 128 - VPMU_NAME_BYTES];
    uint8_t chunk_node[VPMU_CHUNKS]; /* live control: node of each chunk, or VPMU_NODE_UNKNOWN */
};

/* One vCPU. 256 bytes, so that no two vCPU threads share a host cache line. */
struct vpmu_slot {
    uint64_t instructions;
    uint64_t cycles; /* modelled: instructions * cpi + stall_cycles */
    uint64_t l1_misses;
    uint64_t llc_references; /* = misses of the private L2 */
    uint64_t llc_misses_local; /* llc_misses = local + remote */
    uint64_t llc_misses_remote;
    uint64_t shadow_llc_misses; /* what would have missed had the VM been alone (test oracle) */
    uint64_t stall_cycles;
    uint64_t paced_ns; /* slept so that the guest does not outrun its modelled clock */
    uint64_t debt_ns; /* modelled time lost for good because the host CPU could not keep up */
    uint64_t updated_ns; /* CLOCK_MONOTONIC of the last write of cycles, paced_ns and debt_ns */
    int32_t tid; /* of the vCPU thread, in QEMU's own pid namespace; 0 before it runs */
    int32_t cpu; /* host CPU seen at the last L2 miss, -1 before */
    int32_t socket; /* modelled socket of that CPU, -1 before */
    uint8_t reserved[156];
};

/* llc.<socket>: sets * ways tags from header_bytes on, most recent first in each set. */
struct vpmu_llc_header {
    uint64_t magic;
    uint32_t version;
    uint32_t header_bytes;
    uint32_t sets;
    uint32_t ways;
    uint32_t sample;
    uint8_t reserved[4096 - 28];
    uint32_t tags[]; /* vm_id << 24 | guest page number; 0 = empty */
};

/* mc.<node>: all VMs of the directory add the lines they transfer; one of them closes each window. */
struct vpmu_mc {
    uint64_t magic;
    uint32_t version;
    uint32_t header_bytes;
    uint64_t capacity_lines_per_s;
    uint64_t window_start_ns; /* CLOCK_MONOTONIC */
    uint64_t window_lines; /* in the open window */
    uint64_t total_lines; /* cumulative, closed windows only */
    uint32_t utilisation_permille; /* of the last closed window, may exceed 1000 */
    uint32_t latency_x256; /* factor on every miss that this node serves, times 256 */
    uint8_t reserved[4096 - 56];
};

_Static_assert(offsetof(struct vpmu_vm_header, name) == 128, "layout version 1");
_Static_assert(offsetof(struct vpmu_vm_header, chunk_node) == 4096, "layout version 1");
_Static_assert(sizeof(struct vpmu_vm_header) == 4096 + VPMU_CHUNKS, "layout version 1");
_Static_assert(sizeof(struct vpmu_slot) == 256, "layout version 1");
_Static_assert(sizeof(struct vpmu_llc_header) == 4096, "layout version 1");
_Static_assert(sizeof(struct vpmu_mc) == 4096, "layout version 1");

#endif
