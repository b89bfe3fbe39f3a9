// SPDX-License-Identifier: Apache-2.0
/* What a vCPU says to the table and reads from it; cpus_simulate.c is the scheduler. */
#include "cpus.h"

#include <stdio.h>
#include <string.h>

#include "cpumask.h"
#include "cpus_simulate.h"
#include "quota.h"

/* No more than this is made up for when nobody advanced the simulation. */
#define MAX_LAG_NS (2 * CPUS_SILENT_NS)
/* A thread that was kept from running brings a moment so far back at most; what is farther ahead of it is a spoilt file's. */
#define LATE_NS 5000000000ull

static uint64_t load64(const uint64_t *field)
{
    return __atomic_load_n(field, __ATOMIC_RELAXED);
}

static uint32_t load32(const uint32_t *field)
{
    return __atomic_load_n(field, __ATOMIC_RELAXED);
}

void cpus_join(struct vpmu_cpus *table, uint32_t vm_id, uint32_t vcpu_count)
{
    cpus_leave(table, vm_id);
    memset(&table->vm[vm_id], 0, sizeof table->vm[vm_id]);
    memset(table->entry[vm_id], 0, sizeof table->entry[vm_id]);
    table->vm[vm_id].weight = CPUS_STANDARD_WEIGHT;
    for (uint32_t i = 0; i < vcpu_count; i++) {
        table->entry[vm_id][i].allowed = cpumask_all(table->cpu_count);
        table->entry[vm_id][i].weight = CPUS_STANDARD_WEIGHT;
        table->entry[vm_id][i].cpu = -1;
    }
    __atomic_store_n(&table->vcpus_of_vm[vm_id], (uint8_t)vcpu_count, __ATOMIC_RELEASE);
}

void cpus_leave(struct vpmu_cpus *table, uint32_t vm_id)
{
    __atomic_store_n(&table->vcpus_of_vm[vm_id], 0, __ATOMIC_RELEASE);
}

struct cpus_seat cpus_seat(struct vpmu_cpus *table, uint32_t vm_id, uint32_t index, uint64_t now_ns)
{
    return (struct cpus_seat){
        .table = table, .entry = &table->entry[vm_id][index], .vm_id = vm_id, .index = index, .seen_at_ns = now_ns};
}

static void set(uint32_t *field, uint32_t value)
{
    __atomic_store_n(field, value, __ATOMIC_RELAXED);
}

static void claim_quota(struct vpmu_quota *quota, uint32_t quota_us, uint32_t period_us)
{
    set(&quota->period_us, period_us);
    set(&quota->quota_us, quota_us);
}

void cpus_set_siblings(struct vpmu_cpus *table, uint32_t cpu, uint32_t other)
{
    set(&table->cpu[cpu].sibling, other + 1);
    set(&table->cpu[other].sibling, cpu + 1);
}

void cpus_claim(const struct cpus_seat *seat, const struct cpus_claim *claim)
{
    struct vpmu_cpus_entry *entry = seat->entry;
    struct vpmu_cpus_vm *vm = &seat->table->vm[seat->vm_id];
    for (uint32_t i = 0; i < VPMU_CPU_WORDS; i++)
        __atomic_store_n(&entry->allowed.word[i], claim->allowed.word[i], __ATOMIC_RELAXED);
    set(&entry->weight, claim->weight);
    claim_quota(&entry->quota, claim->quota_us, claim->period_us);
    set(&vm->weight, claim->vm_weight);
    claim_quota(&vm->quota, claim->vm_quota_us, claim->vm_period_us);
    if (strncmp(vm->group, claim->vm_group, sizeof vm->group))
        snprintf(vm->group, sizeof vm->group, "%s", claim->vm_group);
}

/* The lock holds the moment it was taken: one whose holder was killed or stopped is taken over. */
static bool take(struct vpmu_cpus *table, uint64_t now_ns)
{
    uint64_t held_ns = load64(&table->lock_ns);
    if (held_ns && held_ns <= now_ns && now_ns < held_ns + CPUS_SILENT_NS)
        return false;
    return __atomic_compare_exchange_n(&table->lock_ns, &held_ns, now_ns, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

/* From where to go on: nobody was there for long, or the file is spoilt. */
static uint64_t begin_of(const struct vpmu_cpus *table, uint64_t now_ns)
{
    uint64_t at_ns = load64(&table->advanced_ns);
    if (at_ns > now_ns)
        return now_ns;
    return now_ns - at_ns > MAX_LAG_NS ? now_ns - MAX_LAG_NS : at_ns;
}

void cpus_advance(struct vpmu_cpus *table, uint64_t now_ns)
{
    uint64_t advanced_ns = load64(&table->advanced_ns);
    /* A late one must not turn the simulation back: the same time would be granted twice. */
    bool is_recent = advanced_ns > now_ns ? advanced_ns - now_ns < LATE_NS : now_ns - advanced_ns < CPUS_MIN_STEP_NS;
    if (is_recent || !take(table, now_ns))
        return;
    uint64_t at_ns = begin_of(table, now_ns);
    while (now_ns - at_ns >= CPUS_MIN_STEP_NS && load64(&table->lock_ns) == now_ns) {
        uint64_t step_ns = now_ns - at_ns < CPUS_STEP_NS ? now_ns - at_ns : CPUS_STEP_NS;
        cpus_simulate_step(table, at_ns, step_ns);
        at_ns += step_ns;
    }
    uint64_t own_ns = now_ns;
    if (load64(&table->lock_ns) == own_ns)
        __atomic_store_n(&table->advanced_ns, at_ns, __ATOMIC_RELAXED);
    __atomic_compare_exchange_n(&table->lock_ns, &own_ns, 0, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED);
}

/* More than the time that passed was never granted: then the table is spoilt, and the clock goes on without it. */
static void follow_grants(struct cpus_seat *seat, uint64_t now_ns)
{
    uint64_t granted_ns = load64(&seat->entry->granted_ns), beside_ns = load64(&seat->entry->beside_sibling_ns);
    uint64_t fresh_ns = granted_ns - seat->seen_granted_ns;
    if (fresh_ns && fresh_ns <= now_ns - seat->seen_at_ns + MAX_LAG_NS) {
        uint64_t fresh_beside_ns = beside_ns - seat->seen_beside_ns;
        seat->beside_permille = fresh_beside_ns < fresh_ns ? (uint32_t)(fresh_beside_ns * 1000 / fresh_ns) : 1000;
        seat->clock_ns += fresh_ns;
    }
    seat->seen_granted_ns = granted_ns;
    seat->seen_beside_ns = beside_ns;
    seat->seen_at_ns = now_ns;
}

uint64_t cpus_silent_ns(const struct vpmu_cpus_entry *entry)
{
    return load32(&entry->quota.quota_us) ? CPUS_SILENT_WITH_QUOTA_NS : CPUS_SILENT_NS;
}

uint64_t cpus_run(struct cpus_seat *seat, uint64_t now_ns)
{
    struct vpmu_cpus_entry *entry = seat->entry;
    uint64_t updated_ns = load64(&entry->updated_ns), silent_ns = 0;
    cpus_advance(seat->table, now_ns);
    if (load32(&entry->state) != VPMU_VCPU_RUNNABLE)
        set(&entry->has_woken, 1);
    else if (updated_ns < now_ns && updated_ns >= seat->seen_at_ns)
        silent_ns = now_ns - updated_ns;
    __atomic_store_n(&entry->updated_ns, now_ns, __ATOMIC_RELAXED);
    set(&entry->state, VPMU_VCPU_RUNNABLE);
    follow_grants(seat, now_ns);
    uint64_t most_ns = cpus_silent_ns(entry);
    return silent_ns > most_ns ? silent_ns - most_ns : 0;
}

void cpus_halt(struct cpus_seat *seat, uint64_t now_ns)
{
    cpus_advance(seat->table, now_ns);
    set(&seat->entry->state, VPMU_VCPU_HALTED);
    follow_grants(seat, now_ns);
}

int cpus_current(const struct cpus_seat *seat)
{
    int32_t cpu = __atomic_load_n(&seat->entry->cpu, __ATOMIC_RELAXED);
    if (cpu >= 0 && (uint32_t)cpu < seat->table->cpu_count)
        return cpu;
    for (uint32_t first = 0; first < seat->table->cpu_count && first < VPMU_MAX_MODELLED_CPUS; first++)
        if (cpumask_has(&seat->entry->allowed, first))
            return (int)first;
    return 0;
}

static uint64_t longer(uint64_t one_ns, uint64_t other_ns)
{
    return one_ns > other_ns ? one_ns : other_ns;
}

uint64_t cpus_patience_ns(const struct cpus_seat *seat, uint64_t owed_ns, uint64_t now_ns)
{
    uint64_t own_ns = quota_wait_ns(&seat->entry->quota, now_ns);
    uint64_t wait_ns = longer(own_ns, quota_wait_ns(&seat->table->vm[seat->vm_id].quota, now_ns));
    if (wait_ns)
        return longer(wait_ns, owed_ns);
    uint32_t current = load32(&seat->table->cpu[cpus_current(seat)].current);
    bool is_running = current == seat->vm_id * VPMU_MAX_VCPUS + seat->index;
    return is_running ? owed_ns : longer(owed_ns, CPUS_STEP_NS);
}

uint64_t cpus_throttled_ns(const struct vpmu_cpus_entry *entry)
{
    return load64(&entry->quota.throttled_ns) + load64(&entry->vm_throttled_ns);
}
