// SPDX-License-Identifier: Apache-2.0
/* What the kernel, and the records that stand for it, say of a vCPU thread: cgroups, and the CPUs it was given. */
#ifndef VPMU_CLAIM_H
#define VPMU_CLAIM_H

#include "cpus.h"

#define CLAIM_EVERY_NS 100000000ull
#define CLAIM_LATEST_NS 1000000000ull
/* The thread uses so many times the CPU time of one read before the next: under a small quota, which its thread really
 * has, it would do little else. */
#define CLAIM_COSTS 20

/* Where to read; the tests have trees of their own. */
struct claim_source {
    const char *process; /* /proc/self */
    const char *cgroups; /* CGROUP_MOUNT */
    const char *directory; /* affinity records are in its folder `affinity` */
    uint32_t cpu_count;
};

struct claim_thread {
    int32_t pid; /* of QEMU, in its own pid namespace */
    int32_t tid;
    uint64_t pid_started_ticks;
    uint64_t tid_started_ticks;
    bool has_inherited;
    struct vpmu_cpumask inherited; /* what its process had when the thread began */
};

/* When a thread last read, by the wall clock and by its CPU time, and what that cost. */
struct claim_clock {
    uint64_t read_ns; /* 0: never */
    uint64_t read_cpu_ns;
    uint64_t cost_ns;
};

bool claim_is_due(const struct claim_clock *clock, uint64_t now_ns, uint64_t cpu_ns);

/* Begins anew with a thread: its identity, which a later thread with its tid does not share. */
void claim_begin(struct claim_thread *thread, const struct claim_source *source, int32_t pid, int32_t tid);

void claim_read(struct claim_thread *thread, const struct claim_source *source, struct cpus_claim *claim);

#endif
