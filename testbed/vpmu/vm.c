// SPDX-License-Identifier: Apache-2.0
#include "vm.h"

#include <string.h>

/* A tick is due after half a millisecond of modelled time: short beside the time that an LLC takes to fill, so that
 * VMs interleave finely, and long beside the cost of a sleep. */
#define TICKS_PER_S 2000
#define UNPACED_TICK_CYCLES 30000
/* What a vCPU runs of a tick that is behind: it had next to no CPU in the longest sleep that QEMU bears. */
#define BEHIND_PART 32

static uint32_t live(const uint32_t *control)
{
    return __atomic_load_n(control, __ATOMIC_RELAXED);
}

/* Beside a busy sibling each instruction takes more of its thread's cycles. What a thread waits for memory is not shared. */
static uint32_t cpi_beside_sibling(const struct vm *vm, const struct vcpu *vcpu, uint32_t cpi_x100)
{
    if (!vm->sibling_percent)
        return cpi_x100;
    uint64_t more = (100 - vm->sibling_percent) * (uint64_t)vcpu->seat.beside_permille / vm->sibling_percent;
    return (uint32_t)(cpi_x100 * (1000 + more) / 1000);
}

static void refill(const struct vm *vm, struct vcpu *vcpu)
{
    uint64_t mhz = vcpu->is_measured ? live(&vm->header->mhz) : 0;
    uint64_t cycles = mhz ? mhz * 1000000 / TICKS_PER_S : UNPACED_TICK_CYCLES;
    if (vcpu->is_behind)
        cycles /= BEHIND_PART;
    vcpu->is_behind = false;
    uint32_t cpi_x100 = live(&vm->header->cpi_x100);
    vcpu->cpi_x100 = cpi_beside_sibling(vm, vcpu, cpi_x100 ? cpi_x100 : 1);
    vcpu->budget_x100 = (int64_t)(cycles * 100);
}

bool vm_init_vcpu(struct vm *vm, uint32_t index, volatile struct vpmu_slot *slot, uint64_t now_ns)
{
    struct vcpu *vcpu = &vm->vcpus[index];
    *vcpu = (struct vcpu){.slot = slot};
    if (!model_init_vcpu(&vm->model, &vcpu->model))
        return false;
    slot->cpu = -1;
    slot->socket = -1;
    vcpu->is_measured = boot_is_over(&vm->boot, &vm->boot_limits, now_ns);
    if (vcpu->is_measured)
        vm->header->phase = VPMU_PHASE_MEASURED;
    refill(vm, vcpu);
    return true;
}

void vcpu_accesses(struct vm *vm, struct vcpu *vcpu, enum model_l1 l1, uint64_t vaddr, uint64_t paddr, bool is_write)
{
    uint64_t stall = l1 == MODEL_L1_MISS ? model_l1_miss(&vm->model, &vcpu->model, vaddr, paddr, is_write)
                                         : model_first_write(&vm->model, &vcpu->model, paddr);
    vcpu->budget_x100 -= (int64_t)(100 * stall);
}

static void count_cycles(struct vcpu *vcpu)
{
    uint64_t instructions = vcpu->model.instructions - vcpu->counted_instructions;
    uint64_t stall_cycles = vcpu->model.stall_cycles - vcpu->counted_stall_cycles;
    vcpu->cycles_x100 += instructions * vcpu->cpi_x100 + stall_cycles * 100;
    vcpu->counted_instructions = vcpu->model.instructions;
    vcpu->counted_stall_cycles = vcpu->model.stall_cycles;
}

/* The clock that paces a vCPU, which wants to run: its modelled CPU time, or the wall clock less what the caller says it
 * was away. On modelled CPUs, time that the host took from it is debt. */
static uint64_t read_clock(struct vcpu *vcpu, uint64_t now_ns)
{
    if (!vcpu->seat.table)
        return now_ns - vcpu->away_ns;
    vcpu->debt_ns += cpus_run(&vcpu->seat, now_ns);
    return vcpu->seat.clock_ns;
}

static void publish_cpu_time(const struct vm *vm, const struct vcpu *vcpu)
{
    volatile struct vpmu_slot *slot = vcpu->slot;
    slot->cpu = cpus_current(&vcpu->seat);
    slot->socket = vm->model.socket_of_cpu[slot->cpu];
    slot->granted_ns = vcpu->seat.entry->granted_ns;
    slot->run_delay_ns = vcpu->seat.entry->delay_ns;
    slot->throttled_ns = cpus_throttled_ns(vcpu->seat.entry);
    slot->beside_sibling_ns = vcpu->seat.entry->beside_sibling_ns;
}

static void publish(const struct vm *vm, struct vcpu *vcpu, uint64_t now_ns)
{
    volatile struct vpmu_slot *slot = vcpu->slot;
    model_publish(&vcpu->model, slot);
    slot->cycles = vcpu->cycles_x100 / 100;
    slot->paced_ns = vcpu->paced_ns;
    slot->debt_ns = vcpu->debt_ns;
    if (vcpu->seat.table)
        publish_cpu_time(vm, vcpu);
    slot->updated_ns = now_ns;
}

static bool is_booting(struct vm *vm, uint64_t now_ns)
{
    if (live(&vm->header->phase) != VPMU_PHASE_BOOT)
        return false;
    if (!boot_is_over(&vm->boot, &vm->boot_limits, now_ns))
        return true;
    __atomic_store_n(&vm->header->phase, VPMU_PHASE_MEASURED, __ATOMIC_RELAXED);
    return false;
}

/* True while the guest boots. What a vCPU ran since its last tick is then not counted. */
static bool still_boots(struct vm *vm, struct vcpu *vcpu, bool in_kernel, uint64_t now_ns)
{
    if (vcpu->is_measured && live(&vm->header->phase) == VPMU_PHASE_MEASURED)
        return false;
    boot_observe(&vm->boot, in_kernel, vcpu->model.instructions - vcpu->counted_instructions);
    vcpu->model.instructions = vcpu->counted_instructions;
    vcpu->is_measured = !is_booting(vm, now_ns);
    vcpu->pace.is_anchored = false;
    if (vcpu->seat.table && !vcpu->is_measured)
        cpus_halt(&vcpu->seat, now_ns); /* a boot runs beside the modelled CPUs */
    return !vcpu->is_measured;
}

void vm_reset(struct vm *vm, uint64_t now_ns)
{
    vm->boot = (struct boot){.started_ns = now_ns};
    if (!boot_is_over(&vm->boot, &vm->boot_limits, now_ns))
        __atomic_store_n(&vm->header->phase, VPMU_PHASE_BOOT, __ATOMIC_RELAXED);
}

/* An unpaced guest misses many times faster than a controller of the modelled clock could serve: it loads none. */
static void share_bandwidth(struct vm *vm, struct vcpu *vcpu, uint32_t mhz, uint64_t now_ns)
{
    if (mhz)
        model_report_bandwidth(&vm->model, &vcpu->model, now_ns);
    memset(vcpu->model.read_lines, 0, sizeof vcpu->model.read_lines);
    memset(vcpu->model.written_lines, 0, sizeof vcpu->model.written_lines);
}

uint64_t vcpu_tick(struct vm *vm, struct vcpu *vcpu, bool in_kernel, uint64_t now_ns)
{
    struct pace_step step = {0, 0};
    if (!still_boots(vm, vcpu, in_kernel, now_ns)) {
        uint32_t mhz = live(&vm->header->mhz);
        count_cycles(vcpu);
        step = pace_step(&vcpu->pace, mhz, read_clock(vcpu, now_ns), vcpu->cycles_x100 / 100);
        vcpu->paced_ns += step.sleep_ns;
        vcpu->debt_ns += step.debt_ns;
        share_bandwidth(vm, vcpu, mhz, now_ns);
        publish(vm, vcpu, now_ns);
    }
    refill(vm, vcpu);
    return step.sleep_ns;
}

void vcpu_halt(struct vm *vm, struct vcpu *vcpu, uint64_t now_ns)
{
    model_flush_l1(&vcpu->model);
    if (!vcpu->is_measured)
        return;
    if (vcpu->seat.table)
        cpus_halt(&vcpu->seat, now_ns);
    count_cycles(vcpu);
    share_bandwidth(vm, vcpu, live(&vm->header->mhz), now_ns);
    publish(vm, vcpu, now_ns);
}

void vcpu_resume(struct vcpu *vcpu, uint64_t now_ns)
{
    if (vcpu->is_measured)
        pace_resume(&vcpu->pace, read_clock(vcpu, now_ns), vcpu->cycles_x100 / 100);
}

uint64_t vcpu_still_owes(struct vcpu *vcpu, uint64_t now_ns)
{
    uint64_t owed_ns = pace_owed_ns(&vcpu->pace, read_clock(vcpu, now_ns), vcpu->cycles_x100 / 100);
    vcpu->is_behind = owed_ns > 0;
    return owed_ns;
}
