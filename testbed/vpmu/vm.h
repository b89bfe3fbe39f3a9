// SPDX-License-Identifier: Apache-2.0
/*
 * A modelled VM over time: counts what its vCPUs run, turns it into modelled cycles, ends the boot phase, paces and
 * publishes. The caller brings the clock and sleeps; each vCPU is driven by its own thread.
 */
#ifndef VPMU_VM_H
#define VPMU_VM_H

#include "boot.h"
#include "cpus.h"
#include "model.h"
#include "pace.h"

struct vcpu {
    struct model_vcpu model;
    struct pace pace;
    volatile struct vpmu_slot *slot;
    bool is_measured;
    uint32_t cpi_x100;
    int64_t budget_x100; /* modelled cycles, times 100, until the next tick */
    uint64_t cycles_x100;
    uint64_t counted_instructions; /* already in cycles_x100 */
    uint64_t counted_stall_cycles;
    uint64_t paced_ns;
    uint64_t debt_ns;
    struct cpus_seat seat; /* on modelled CPUs, what it is granted there is the time that paces it */
    bool is_behind; /* still owes after the longest sleep: only a little may run before the next one */
    uint64_t away_ns; /* wall time that does not count, since the vCPU had no CPU: kept by the caller, 0 if it counts */
} __attribute__((aligned(128)));

struct vm {
    struct model model;
    struct vpmu_vm_header *header;
    struct boot boot;
    struct boot_limits boot_limits;
    uint32_t sibling_percent; /* speed of what a vCPU computes beside a busy sibling; 0: nobody has one */
    uint32_t vcpu_count;
    struct vcpu vcpus[VPMU_MAX_VCPUS];
};

/* Once model, header, limits and boot.started_ns stand: false when memory is short. */
bool vm_init_vcpu(struct vm *vm, uint32_t index, volatile struct vpmu_slot *slot, uint64_t now_ns);

/* A block of instructions ran; true when a tick is due. Inlined: it runs for every block. */
static inline bool vcpu_runs(struct vcpu *vcpu, uint64_t instructions)
{
    vcpu->model.instructions += instructions;
    vcpu->budget_x100 -= (int64_t)(instructions * vcpu->cpi_x100);
    return vcpu->budget_x100 < 0;
}

/* An access that L1 did not answer alone. */
void vcpu_accesses(struct vm *vm, struct vcpu *vcpu, enum model_l1 l1, uint64_t vaddr, uint64_t paddr, bool is_write);

/* Accounts and publishes; returns for how many ns the vCPU thread must sleep now. */
uint64_t vcpu_tick(struct vm *vm, struct vcpu *vcpu, bool in_kernel, uint64_t now_ns);

/* After a sleep, on modelled CPUs: for how many ns the vCPU thread must sleep again, 0 = it may run. */
uint64_t vcpu_still_owes(struct vcpu *vcpu, uint64_t now_ns);

/* The guest begins anew at the reset vector, in the same QEMU: it may boot at full speed again. Counters stand still. */
void vm_reset(struct vm *vm, uint64_t now_ns);

/* The guest halted the vCPU, and later it runs again. */
void vcpu_halt(struct vm *vm, struct vcpu *vcpu, uint64_t now_ns);
void vcpu_resume(struct vcpu *vcpu, uint64_t now_ns);

#endif
