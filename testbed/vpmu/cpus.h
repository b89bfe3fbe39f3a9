// SPDX-License-Identifier: Apache-2.0
/*
 * Modelled CPUs: a table in shared memory of the vCPUs of all VMs of a directory, and a simulation of the kernel's fair
 * scheduler over it. Any vCPU that ticks advances the simulation up to now; nobody waits for anybody. What a vCPU is
 * granted is the clock that paces it. Pure: the caller brings the clock, weights, quotas and affinities.
 *
 * The table is everybody's to write: whatever it says, no index, loop or span here leaves its bounds, and a simulation
 * that was abandoned in the middle is taken over.
 */
#ifndef VPMU_CPUS_H
#define VPMU_CPUS_H

#include <stdbool.h>
#include <stdint.h>

#include "vpmu_layout.h"

#define CPUS_STEP_NS 1000000ull         /* the simulation's grain */
#define CPUS_MIN_STEP_NS 200000ull      /* less is left for later */
#define CPUS_GRANULARITY_NS 3000000ull  /* who runs stays until it is so far ahead of the others, weighted */
#define CPUS_BALANCE_NS 100000000ull
#define CPUS_SILENT_NS 100000000ull     /* a vCPU that says nothing for so long (paused, killed) claims no CPU */
/* With a quota, its thread has that, too. The kernel looks at a quota every few milliseconds, so that who overran a small
 * one by one look is then kept from running for several periods. */
#define CPUS_SILENT_WITH_QUOTA_NS 1000000000ull
#define CPUS_STANDARD_WEIGHT 1024u

/* What a vCPU wants, and its VM. */
struct cpus_claim {
    struct vpmu_cpumask allowed;
    uint32_t weight; /* among the vCPUs of its VM */
    uint32_t quota_us; /* of the vCPU; 0: none */
    uint32_t period_us;
    uint32_t vm_weight;
    uint32_t vm_quota_us; /* of all vCPUs together */
    uint32_t vm_period_us;
    char vm_group[VPMU_GROUP_BYTES]; /* the cgroup that has it */
};

/* Of one vCPU. */
struct cpus_seat {
    struct vpmu_cpus *table; /* NULL: CPUs are not modelled */
    struct vpmu_cpus_entry *entry;
    uint32_t vm_id;
    uint32_t index;
    uint64_t clock_ns; /* modelled CPU time, as far as it was granted within reason */
    uint64_t seen_granted_ns;
    uint64_t seen_beside_ns;
    uint32_t beside_permille; /* of what it was granted last, the part in which the sibling of its CPU was busy */
    uint64_t seen_at_ns;
};

/* Under the registry's lock: takes the VM's entries, whoever had them before, or gives them up. */
void cpus_join(struct vpmu_cpus *table, uint32_t vm_id, uint32_t vcpu_count);
void cpus_leave(struct vpmu_cpus *table, uint32_t vm_id);

struct cpus_seat cpus_seat(struct vpmu_cpus *table, uint32_t vm_id, uint32_t index, uint64_t now_ns);

/* The two are threads of one core. */
void cpus_set_siblings(struct vpmu_cpus *table, uint32_t cpu, uint32_t other);

void cpus_claim(const struct cpus_seat *seat, const struct cpus_claim *claim);

/* The vCPU wants to run, or still does; returns for how long it was silent although it wanted to, beyond what counts as
 * being runnable: time that the host took from it. Brings `clock_ns` up to now. */
uint64_t cpus_run(struct cpus_seat *seat, uint64_t now_ns);

/* For how long it counts as runnable after its last word. */
uint64_t cpus_silent_ns(const struct vpmu_cpus_entry *entry);

void cpus_halt(struct cpus_seat *seat, uint64_t now_ns);

/* Up to now, unless another thread is at it. */
void cpus_advance(struct vpmu_cpus *table, uint64_t now_ns);

/* The modelled CPU that it is on, or will be; always below the table's number of CPUs. */
int cpus_current(const struct cpus_seat *seat);

/* For how long a vCPU that owes so much CPU time had best sleep before it looks again. One whose quota is used up has
 * nothing to look for before the next period: the looks alone would use up a small quota that its thread really has. */
uint64_t cpus_patience_ns(const struct cpus_seat *seat, uint64_t owed_ns, uint64_t now_ns);

/* Throttled by its own quota or by its VM's. */
uint64_t cpus_throttled_ns(const struct vpmu_cpus_entry *entry);

#endif
