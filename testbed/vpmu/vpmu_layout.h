// SPDX-License-Identifier: Apache-2.0
/*
 * The shared memory of vpmu, version 1: what the plugin writes and everybody else may read.
 * Only the layout lives here, no behaviour. `vpmu layout --json` prints these offsets, so readers in
 * other languages test themselves against the compiler's word instead of repeating it by hand.
 *
 * One directory per modelled host holds:
 *   vm.<name>      one per VM, <name> is the libvirt domain name: vpmu_vm_header, then one vpmu_slot per vCPU
 *   llc.<socket>   lines of the last-level cache that all VMs of the directory share on that socket
 *   mc.<node>      load of the modelled memory controller of that node, which may serve several sockets
 *   cpus           where CPUs are modelled: what each vCPU wants of them and gets
 *   affinity/<tid> where CPUs are modelled: "STARTED LIST", the CPUs that thread was given; see numa_shim.c
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
#define VPMU_LLC_MAGIC 0x32434c4c554d5056ull /* "VPMULLC2" */
#define VPMU_MC_MAGIC 0x3130434d554d5056ull  /* "VPMUMC01" */
#define VPMU_CPUS_MAGIC 0x31555043554d5056ull /* "VPMUCPU1" */
#define VPMU_VERSION 1u

#define VPMU_DEFAULT_DIR "/run/vpmu"
#define VPMU_NAME_BYTES 256
#define VPMU_MAX_VCPUS 64u
#define VPMU_MAX_SOCKETS 8u
#define VPMU_MAX_VM_ID 255u
#define VPMU_MAX_MODELLED_CPUS 256u
#define VPMU_CPU_WORDS (VPMU_MAX_MODELLED_CPUS / 64)
#define VPMU_GROUP_BYTES 256

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
    uint32_t reserved0;
    uint64_t write_backs; /* written lines, of whatever VM, that this vCPU's misses made leave for memory */
    uint64_t granted_ns; /* these three on modelled CPUs only: time on its CPU, */
    uint64_t run_delay_ns; /* runnable while another had it, */
    uint64_t throttled_ns; /* and runnable while its quota, or its VM's, was used up; unlike in schedstat no part of delay */
    uint64_t beside_sibling_ns; /* of granted_ns: while the sibling of its CPU was busy too */
    uint8_t reserved[112];
};

/* llc.<socket>: sets * ways lines from header_bytes on, most recent first in each set. */
struct vpmu_llc_header {
    uint64_t magic;
    uint32_t version;
    uint32_t header_bytes;
    uint32_t sets;
    uint32_t ways;
    uint32_t sample;
    uint8_t reserved[4096 - 28];
    uint64_t lines[]; /* see cache.h; the tag is vm_id << 40 | guest page number; 0 = empty */
};

/* mc.<node>: all VMs of the directory add the lines they read and write back; one of them closes each window. */
struct vpmu_mc {
    uint64_t magic;
    uint32_t version;
    uint32_t header_bytes;
    uint64_t capacity_lines_per_s;
    uint64_t window_start_ns; /* CLOCK_MONOTONIC */
    uint64_t window_lines; /* read and written in the open window */
    uint64_t total_lines; /* cumulative, closed windows only */
    uint32_t utilisation_permille; /* of the last closed windows, may exceed 1000 */
    uint32_t latency_x256; /* factor on every miss that this node serves, times 256 */
    uint64_t write_capacity_lines_per_s; /* 0: writes have no limit of their own */
    uint64_t window_written_lines; /* of window_lines, those written back */
    uint64_t total_written_lines; /* of total_lines */
    uint32_t write_utilisation_permille; /* of the write capacity */
    uint32_t price_x65536; /* part of latency_x256 that keeps the capacity; 0 or 65536: it was not exceeded */
    uint32_t write_price_x65536; /* that of write-backs */
    uint8_t reserved[4096 - 92];
};

/* cpus: the modelled CPUs, and what each vCPU wants and gets of them; see cpus.h. */
struct vpmu_cpumask {
    uint64_t word[VPMU_CPU_WORDS];
};

/* A quota, and what the kernel's cpu.stat would say of it. */
struct vpmu_quota {
    uint32_t quota_us; /* 0: none */
    uint32_t period_us;
    uint64_t period_start_ns;
    int64_t left_ns;
    uint64_t periods;
    uint64_t throttled_periods;
    uint64_t throttled_ns;
    uint32_t is_throttled;
    uint32_t reserved;
};

enum vpmu_vcpu_state { VPMU_VCPU_ABSENT = 0, VPMU_VCPU_RUNNABLE = 1, VPMU_VCPU_HALTED = 2 };

struct vpmu_cpus_entry {
    int32_t tid; /* of the vCPU thread, in QEMU's own pid namespace */
    uint32_t state; /* enum vpmu_vcpu_state */
    uint64_t thread_started_ticks; /* as in /proc/T/stat: tells this thread from a later one with its tid */
    uint64_t updated_ns; /* CLOCK_MONOTONIC: when it last said that it wants to run */
    struct vpmu_cpumask allowed;
    uint32_t weight;
    uint32_t effective_weight; /* as of the last step: its part of its VM's */
    int32_t cpu; /* -1: on none yet */
    uint32_t has_woken;
    int64_t vruntime_ns;
    uint64_t granted_ns;
    uint64_t delay_ns;
    uint64_t delay_at_move_ns;
    uint64_t vm_throttled_ns; /* throttled by its VM's quota; by its own: quota.throttled_ns */
    uint64_t slices;
    struct vpmu_quota quota;
    uint32_t may_run; /* as of the last step: it wants to, and no quota forbids it */
    uint32_t reserved0;
    uint64_t beside_sibling_ns; /* of granted_ns: while the sibling of its CPU was busy too */
    uint8_t reserved[256 - 192];
};

struct vpmu_cpus_vm {
    uint32_t weight;
    uint32_t reserved0;
    struct vpmu_quota quota; /* of all of its vCPUs together */
    char group[VPMU_GROUP_BYTES]; /* path of the cgroup that has it, as QEMU sees it */
    uint8_t reserved[512 - 320];
};

struct vpmu_modelled_cpu {
    uint32_t current; /* entry that runs, vm_id * VPMU_MAX_VCPUS + vCPU; 0 = idle */
    uint32_t sibling; /* CPU + 1 of the other thread of its core; 0 = none */
    int64_t vruntime_ns;
    uint64_t busy_ns;
};

struct vpmu_cpus {
    uint64_t magic;
    uint32_t version;
    uint32_t header_bytes;
    uint32_t cpu_count;
    uint32_t ticks_per_s; /* unit of thread_started_ticks */
    uint64_t lock_ns; /* since when somebody advances the simulation, 0 = nobody */
    uint64_t advanced_ns; /* CLOCK_MONOTONIC: up to here */
    uint64_t balanced_ns;
    uint8_t vcpus_of_vm[VPMU_MAX_VM_ID + 1]; /* 0: no such VM */
    uint8_t reserved[4096 - 48 - 256];
    struct vpmu_modelled_cpu cpu[VPMU_MAX_MODELLED_CPUS];
    struct vpmu_cpus_vm vm[VPMU_MAX_VM_ID + 1];
    struct vpmu_cpus_entry entry[VPMU_MAX_VM_ID + 1][VPMU_MAX_VCPUS];
};

_Static_assert(sizeof(struct vpmu_cpus_entry) == 256, "layout version 1");
_Static_assert(sizeof(struct vpmu_cpus_vm) == 512, "layout version 1");
_Static_assert(offsetof(struct vpmu_cpus, cpu) == 4096, "layout version 1");
_Static_assert(offsetof(struct vpmu_vm_header, name) == 128, "layout version 1");
_Static_assert(offsetof(struct vpmu_vm_header, chunk_node) == 4096, "layout version 1");
_Static_assert(sizeof(struct vpmu_vm_header) == 4096 + VPMU_CHUNKS, "layout version 1");
_Static_assert(sizeof(struct vpmu_slot) == 256, "layout version 1");
_Static_assert(sizeof(struct vpmu_llc_header) == 4096, "layout version 1");
_Static_assert(sizeof(struct vpmu_mc) == 4096, "layout version 1");

#endif
