// SPDX-License-Identifier: Apache-2.0
#include "cpus_simulate.h"

#include <string.h>

#include "cpumask.h"
#include "quota.h"

/* The kernel's bounds of cpu.shares. */
#define MIN_WEIGHT 2u
#define MAX_WEIGHT 262144u
#define MAX_VRUNTIME_NS (INT64_MAX / 4)

/* What the runnable vCPUs make of the CPUs, as of one step. */
struct view {
    uint32_t cpu_count;
    uint64_t weight_of_vm[VPMU_MAX_VM_ID + 1]; /* of its runnable vCPUs together */
    uint64_t load[VPMU_MAX_MODELLED_CPUS];
    uint32_t count[VPMU_MAX_MODELLED_CPUS];
    struct vpmu_cpus_entry *least[VPMU_MAX_MODELLED_CPUS];
    struct vpmu_cpus_entry *chosen[VPMU_MAX_MODELLED_CPUS];
    uint32_t chosen_id[VPMU_MAX_MODELLED_CPUS];
};

static uint32_t load32(const uint32_t *field)
{
    return __atomic_load_n(field, __ATOMIC_RELAXED);
}

static uint64_t load64(const uint64_t *field)
{
    return __atomic_load_n(field, __ATOMIC_RELAXED);
}

static uint64_t bounded(uint64_t number, uint64_t least, uint64_t most)
{
    return number < least ? least : number < most ? number : most;
}

static uint32_t weight_of(const uint32_t *field)
{
    return (uint32_t)bounded(load32(field), MIN_WEIGHT, MAX_WEIGHT);
}

static bool is_runnable(const struct vpmu_cpus_entry *entry, uint64_t now_ns)
{
    uint64_t updated_ns = load64(&entry->updated_ns);
    uint64_t silent_ns = cpus_silent_ns(entry);
    return load32(&entry->state) == VPMU_VCPU_RUNNABLE && updated_ns <= now_ns + silent_ns &&
           now_ns < updated_ns + silent_ns;
}

/* The first runnable vCPU from `id` on, which it sets; NULL after the last. */
static struct vpmu_cpus_entry *next_runnable(struct vpmu_cpus *table, uint32_t *id, uint64_t now_ns)
{
    for (uint32_t vm = *id / VPMU_MAX_VCPUS; vm <= VPMU_MAX_VM_ID; vm++, *id = vm * VPMU_MAX_VCPUS) {
        uint32_t vcpus = __atomic_load_n(&table->vcpus_of_vm[vm], __ATOMIC_ACQUIRE);
        for (uint32_t index = *id % VPMU_MAX_VCPUS; index < vcpus && index < VPMU_MAX_VCPUS; index++) {
            *id = vm * VPMU_MAX_VCPUS + index;
            if (is_runnable(&table->entry[vm][index], now_ns))
                return &table->entry[vm][index];
        }
    }
    return NULL;
}

#define FOR_EACH_RUNNABLE(table, entry, id, now_ns) \
    for (uint32_t id = VPMU_MAX_VCPUS; ((entry) = next_runnable((table), &id, (now_ns))); id++)

static int32_t cpu_of(const struct view *view, const struct vpmu_cpus_entry *entry)
{
    int32_t cpu = __atomic_load_n(&entry->cpu, __ATOMIC_RELAXED);
    return cpu >= 0 && (uint32_t)cpu < view->cpu_count ? cpu : -1;
}

/* A VM's weight is shared by those of its vCPUs that want to run. */
static uint32_t part_of_vm(const struct vpmu_cpus *table, const struct view *view, const struct vpmu_cpus_entry *entry,
                           uint32_t vm)
{
    uint64_t part = (uint64_t)weight_of(&table->vm[vm].weight) * weight_of(&entry->weight) / view->weight_of_vm[vm];
    return (uint32_t)bounded(part, MIN_WEIGHT, MAX_WEIGHT);
}

static void look(struct vpmu_cpus *table, uint64_t now_ns, struct view *view)
{
    struct vpmu_cpus_entry *entry;
    memset(view, 0, sizeof *view);
    view->cpu_count = (uint32_t)bounded(table->cpu_count, 1, VPMU_MAX_MODELLED_CPUS);
    FOR_EACH_RUNNABLE(table, entry, id, now_ns)
        view->weight_of_vm[id / VPMU_MAX_VCPUS] += weight_of(&entry->weight);
    FOR_EACH_RUNNABLE(table, entry, id, now_ns) {
        /* One that became runnable since the first look. */
        if (!view->weight_of_vm[id / VPMU_MAX_VCPUS])
            view->weight_of_vm[id / VPMU_MAX_VCPUS] = weight_of(&entry->weight);
        entry->effective_weight = part_of_vm(table, view, entry, id / VPMU_MAX_VCPUS);
        int32_t cpu = cpu_of(view, entry);
        entry->vruntime_ns = entry->vruntime_ns > MAX_VRUNTIME_NS || entry->vruntime_ns < 0 ? 0 : entry->vruntime_ns;
        if (cpu < 0)
            continue;
        view->load[cpu] += entry->effective_weight;
        view->count[cpu]++;
    }
}

static int64_t vruntime_of(const struct vpmu_cpus *table, int32_t cpu)
{
    int64_t vruntime_ns = table->cpu[cpu].vruntime_ns;
    return vruntime_ns < 0 || vruntime_ns > MAX_VRUNTIME_NS ? 0 : vruntime_ns;
}

/* Its lead or lag goes with it. */
static void move(struct vpmu_cpus *table, struct view *view, struct vpmu_cpus_entry *entry, int32_t to)
{
    int32_t from = cpu_of(view, entry);
    int64_t lead_ns = from < 0 ? 0 : entry->vruntime_ns - vruntime_of(table, from);
    if (from >= 0 && view->count[from]) {
        view->load[from] -= bounded(entry->effective_weight, 0, view->load[from]);
        view->count[from]--;
    }
    int64_t vruntime_ns = vruntime_of(table, to) + lead_ns;
    entry->vruntime_ns = vruntime_ns < 0 ? 0 : vruntime_ns;
    __atomic_store_n(&entry->cpu, to, __ATOMIC_RELAXED);
    view->load[to] += entry->effective_weight;
    view->count[to]++;
}

/* -1: it has a core of its own. */
static int32_t sibling_of(const struct vpmu_cpus *table, const struct view *view, uint32_t cpu)
{
    uint32_t sibling = load32(&table->cpu[cpu].sibling) - 1;
    return sibling < view->cpu_count && sibling != cpu ? (int32_t)sibling : -1;
}

static uint64_t load_beside(const struct vpmu_cpus *table, const struct view *view, uint32_t cpu)
{
    int32_t sibling = sibling_of(table, view, cpu);
    return sibling < 0 ? 0 : view->load[sibling];
}

/* Of CPUs that are loaded alike, the one whose sibling is loaded least. -1: its affinity names no CPU. */
static int32_t least_loaded(const struct vpmu_cpus *table, const struct view *view,
                            const struct vpmu_cpus_entry *entry)
{
    int32_t best = -1;
    for (uint32_t cpu = 0; cpu < view->cpu_count; cpu++) {
        if (!cpumask_has(&entry->allowed, cpu))
            continue;
        if (best < 0 || view->load[cpu] < view->load[best] ||
            (view->load[cpu] == view->load[best] &&
             load_beside(table, view, cpu) < load_beside(table, view, (uint32_t)best)))
            best = (int32_t)cpu;
    }
    return best;
}

/* Who slept or was throttled comes back with no more credit than one granularity. */
static void come_back(const struct vpmu_cpus *table, struct vpmu_cpus_entry *entry, int32_t cpu)
{
    int64_t least_ns = vruntime_of(table, cpu) - (int64_t)CPUS_GRANULARITY_NS;
    if (entry->vruntime_ns < least_ns)
        entry->vruntime_ns = least_ns;
}

static void place_one(struct vpmu_cpus *table, struct view *view, struct vpmu_cpus_entry *entry)
{
    bool has_woken = __atomic_exchange_n(&entry->has_woken, 0, __ATOMIC_RELAXED);
    int32_t cpu = cpu_of(view, entry);
    bool is_misplaced = cpu < 0 || !cpumask_has(&entry->allowed, (uint32_t)cpu);
    if (is_misplaced || (has_woken && view->count[cpu] > 1)) {
        int32_t best = least_loaded(table, view, entry);
        if (best >= 0 && best != cpu &&
            (is_misplaced || view->load[best] + entry->effective_weight < view->load[cpu]))
            move(table, view, entry, best);
    }
    if (has_woken && cpu_of(view, entry) >= 0)
        come_back(table, entry, cpu_of(view, entry));
}

/* From a CPU that others want too, wherever it would be no worse off; from beside a busy sibling, to an idle core. */
static bool would_move(const struct vpmu_cpus *table, const struct view *view, const struct vpmu_cpus_entry *entry,
                       int32_t from, int32_t to)
{
    if (to < 0 || to == from)
        return false;
    if (view->count[from] > 1)
        return view->load[to] + entry->effective_weight <= view->load[from];
    return load_beside(table, view, (uint32_t)from) && !view->load[to] && !load_beside(table, view, (uint32_t)to);
}

/* One pull at a time: whoever would be no worse off, the longest waiting first, so that three on two CPUs take turns. */
static void balance(struct vpmu_cpus *table, struct view *view, uint64_t now_ns)
{
    struct vpmu_cpus_entry *entry, *moved = NULL;
    int32_t target = -1;
    FOR_EACH_RUNNABLE(table, entry, id, now_ns) {
        int32_t cpu = cpu_of(view, entry);
        if (cpu < 0)
            continue;
        int32_t best = least_loaded(table, view, entry);
        if (!would_move(table, view, entry, cpu, best))
            continue;
        if (!moved || entry->delay_ns - entry->delay_at_move_ns > moved->delay_ns - moved->delay_at_move_ns) {
            moved = entry;
            target = best;
        }
    }
    if (!moved)
        return;
    move(table, view, moved, target);
    moved->delay_at_move_ns = moved->delay_ns;
}

/* By its own quota, or by that of all vCPUs of its VM together. */
static bool is_throttled(struct vpmu_cpus *table, struct vpmu_cpus_entry *entry, uint32_t vm, int32_t cpu,
                         uint64_t at_ns, uint64_t step_ns)
{
    bool was_throttled = entry->quota.is_throttled;
    if (quota_is_used_up(&entry->quota, at_ns)) {
        entry->quota.throttled_ns += step_ns;
        return true;
    }
    if (quota_is_used_up(&table->vm[vm].quota, at_ns)) {
        table->vm[vm].quota.throttled_ns += step_ns;
        entry->vm_throttled_ns += step_ns;
        return true;
    }
    if (was_throttled || table->vm[vm].quota.quota_us)
        come_back(table, entry, cpu);
    return false;
}

static void choose(struct vpmu_cpus *table, struct view *view, uint64_t at_ns, uint64_t step_ns)
{
    struct vpmu_cpus_entry *entry;
    struct vpmu_cpus_entry *had[VPMU_MAX_MODELLED_CPUS] = {0};
    FOR_EACH_RUNNABLE(table, entry, id, at_ns) {
        int32_t cpu = cpu_of(view, entry);
        entry->may_run = cpu >= 0 && !is_throttled(table, entry, id / VPMU_MAX_VCPUS, cpu, at_ns, step_ns);
        if (!entry->may_run)
            continue;
        if (table->cpu[cpu].current == id)
            had[cpu] = entry;
        if (!view->least[cpu] || entry->vruntime_ns < view->least[cpu]->vruntime_ns) {
            view->least[cpu] = entry;
            view->chosen_id[cpu] = id;
        }
    }
    for (uint32_t cpu = 0; cpu < view->cpu_count; cpu++) {
        view->chosen[cpu] = view->least[cpu];
        if (!had[cpu] || had[cpu]->vruntime_ns > view->least[cpu]->vruntime_ns + (int64_t)CPUS_GRANULARITY_NS)
            continue;
        view->chosen[cpu] = had[cpu];
        view->chosen_id[cpu] = table->cpu[cpu].current;
    }
}

static void run_cpu(struct vpmu_cpus *table, const struct view *view, uint32_t cpu, uint64_t step_ns)
{
    struct vpmu_cpus_entry *chosen = view->chosen[cpu];
    struct vpmu_modelled_cpu *own = &table->cpu[cpu];
    uint32_t id = chosen ? view->chosen_id[cpu] : 0;
    if (chosen && own->current != id)
        chosen->slices++;
    __atomic_store_n(&own->current, id, __ATOMIC_RELAXED);
    if (!chosen)
        return;
    if (view->least[cpu]->vruntime_ns > vruntime_of(table, (int32_t)cpu))
        own->vruntime_ns = view->least[cpu]->vruntime_ns;
    own->busy_ns += step_ns;
    chosen->may_run = 0;
    chosen->vruntime_ns += (int64_t)(step_ns * CPUS_STANDARD_WEIGHT / weight_of(&chosen->effective_weight));
    quota_charge(&chosen->quota, step_ns);
    quota_charge(&table->vm[id / VPMU_MAX_VCPUS].quota, step_ns);
    __atomic_store_n(&chosen->granted_ns, chosen->granted_ns + step_ns, __ATOMIC_RELAXED);
    int32_t sibling = sibling_of(table, view, cpu);
    if (sibling >= 0 && view->chosen[sibling])
        __atomic_store_n(&chosen->beside_sibling_ns, chosen->beside_sibling_ns + step_ns, __ATOMIC_RELAXED);
}

void cpus_simulate_step(struct vpmu_cpus *table, uint64_t at_ns, uint64_t step_ns)
{
    struct view view;
    struct vpmu_cpus_entry *entry;
    look(table, at_ns, &view);
    FOR_EACH_RUNNABLE(table, entry, id, at_ns)
        place_one(table, &view, entry);
    if (at_ns >= table->balanced_ns + CPUS_BALANCE_NS || at_ns < table->balanced_ns) {
        balance(table, &view, at_ns);
        table->balanced_ns = at_ns;
    }
    choose(table, &view, at_ns, step_ns);
    for (uint32_t cpu = 0; cpu < view.cpu_count; cpu++)
        run_cpu(table, &view, cpu, step_ns);
    /* Whoever is left waits. Counters only grow: readers take them at any moment. */
    FOR_EACH_RUNNABLE(table, entry, id, at_ns)
        if (entry->may_run)
            entry->delay_ns += step_ns;
}
