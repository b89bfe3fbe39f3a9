// SPDX-License-Identifier: Apache-2.0
/*
 * What one memory access costs: L1 filter -> private L2 -> LLC of the socket -> memory, local or remote. A
 * socket is what shares one LLC; several may be on one memory node.
 * Knows nothing of QEMU, files or clocks: the plugin binds it to shared memory and to sched_getcpu, the tests to plain
 * arrays and to a CPU they choose.
 *
 * Set sampling: only lines whose low address bits are zero are modelled, one of `sample`; they fill only the sets with
 * those low bits, so ratios are those of the full model and every count is multiplied by `sample`.
 */
#ifndef VPMU_MODEL_H
#define VPMU_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include "cache.h"
#include "vpmu_layout.h"

#define LINE_SHIFT 6u
#define PAGE_SHIFT 12u
#define LINES_PER_PAGE 64u
#define VPMU_MAX_CPUS 1024u

struct model_config {
    uint32_t l1_kib;
    uint32_t l2_kib;
    uint32_t l2_ways;
    uint32_t llc_kib;
    uint32_t llc_ways;
    uint32_t sample;
    uint32_t latency_l2; /* cycles */
    uint32_t latency_llc;
    uint32_t latency_local;
    uint32_t latency_remote;
    uint32_t overlap; /* misses on consecutive lines are in flight together: each costs latency / overlap */
    uint32_t shadow;
};

/* What the vCPUs of one VM share. */
struct model {
    struct model_config config;
    struct vpmu_vm_header *header;
    struct cache llc[VPMU_MAX_SOCKETS];
    struct cache shadow[VPMU_MAX_SOCKETS];
    struct vpmu_mc *controller[VPMU_MAX_SOCKETS]; /* NULL: no bandwidth contention */
    uint8_t socket_of_cpu[VPMU_MAX_CPUS];
    uint8_t node_of_socket[VPMU_MAX_SOCKETS];
    uint32_t node_count;
    uint32_t write_line_cycles; /* that a controller's write buffers take for a line at their limit */
    int (*current_cpu)(void);
    uint32_t vm_id;
};

/* One vCPU; only its own thread touches it. Counters as in struct vpmu_slot, which receives them at every publish. */
struct model_vcpu {
    uint64_t l1_mask;
    uint64_t sample_mask;
    uint64_t *l1_lines; /* of the direct-mapped filter, by virtual address: line held << 1 | written */
    struct cache l2;
    uint64_t last_missed_line;
    uint64_t instructions;
    uint64_t l1_misses;
    uint64_t llc_references;
    uint64_t llc_misses_local;
    uint64_t llc_misses_remote;
    uint64_t shadow_llc_misses;
    uint64_t stall_cycles;
    uint64_t write_backs;
    uint64_t read_lines[VPMU_MAX_SOCKETS]; /* by node; the caller zeroes both when the controllers know */
    uint64_t written_lines[VPMU_MAX_SOCKETS];
    int32_t cpu;
    int32_t socket;
};

/* False when memory is short. Nothing is freed: vCPU threads may still run while QEMU exits. */
bool model_init_vcpu(const struct model *model, struct model_vcpu *vcpu);
bool model_init_shadow(struct model *model);

uint32_t model_l2_sets(const struct model_config *config);
uint32_t model_llc_sets(const struct model_config *config);

enum model_l1 {
    MODEL_L1_HIT,         /* nothing more to do */
    MODEL_L1_MISS,        /* on to model_l1_miss */
    MODEL_L1_FIRST_WRITE, /* on to model_first_write: L1 writes through once, so that only L2 and LLC have dirty lines */
};

/* The L1 filter, inlined because it runs on every guest access. */
static inline enum model_l1 model_l1(struct model_vcpu *vcpu, uint64_t vaddr, bool is_write)
{
    uint64_t line = vaddr >> LINE_SHIFT;
    if (line & vcpu->sample_mask)
        return MODEL_L1_HIT;
    uint64_t *entry = &vcpu->l1_lines[line & vcpu->l1_mask];
    uint64_t held = *entry;
    if (held >> 1 != line) {
        *entry = line << 1 | is_write;
        return MODEL_L1_MISS;
    }
    if (held & 1 || !is_write)
        return MODEL_L1_HIT;
    *entry = held | 1;
    return MODEL_L1_FIRST_WRITE;
}

/* An access that missed L1; returns the cycles it stalls, already scaled by `sample`. */
uint64_t model_l1_miss(struct model *model, struct model_vcpu *vcpu, uint64_t vaddr, uint64_t paddr, bool is_write);

/* The first write to a line that L1 holds: no miss, but the line is dirty from now on. Returns the stall cycles. */
uint64_t model_first_write(struct model *model, struct model_vcpu *vcpu, uint64_t paddr);

/* Empties the L1 filter: it is indexed by virtual address and must not outlive a context switch to idle. */
void model_flush_l1(struct model_vcpu *vcpu);

/* Tells the controllers of the lines read and written and closes their windows if they are over. */
void model_report_bandwidth(struct model *model, struct model_vcpu *vcpu, uint64_t now_ns);

/* Copies the counters to where readers see them. */
void model_publish(const struct model_vcpu *vcpu, volatile struct vpmu_slot *slot);

#endif
