// SPDX-License-Identifier: Apache-2.0
/* Modelled VMs on plain memory, with the CPU they run on chosen by the test: CPU n belongs to socket n. */
#ifndef VPMU_RIG_H
#define VPMU_RIG_H

#include "config.h"
#include "model.h"

#define KIB 1024ull

/* What the VMs of one modelled host share. */
struct rig_host {
    struct model_config config;
    struct cache llc[2];
    struct vpmu_mc controllers[2];
    bool has_bandwidth;
    bool is_one_node; /* both sockets on node 0 */
};

struct rig_vm {
    struct vpmu_vm_header header;
    struct model model;
    struct model_vcpu vcpu;
    int cpu;
};

void rig_host_init(struct rig_host *host);
void rig_host_free(struct rig_host *host);
void rig_vm_init(struct rig_vm *vm, const struct rig_host *host, uint32_t vm_id);
void rig_vm_free(struct rig_vm *vm);

/* One access, at equal virtual and physical address. */
void rig_access(struct rig_vm *vm, uint64_t address);
void rig_write(struct rig_vm *vm, uint64_t address);

/* Each line of [base, base + bytes) once, in an order that has no neighbours beside each other. */
void rig_chase(struct rig_vm *vm, uint64_t base, uint64_t bytes);

/* The same in ascending order. */
void rig_stream(struct rig_vm *vm, uint64_t base, uint64_t bytes);

/* Forgets the counters, keeps the caches. */
void rig_reset_counters(struct rig_vm *vm);

uint64_t rig_misses(const struct rig_vm *vm);
double rig_memory_factor(const struct rig_vm *vm);
double rig_shadow_memory_factor(const struct rig_vm *vm);

#endif
