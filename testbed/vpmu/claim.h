// SPDX-License-Identifier: Apache-2.0
/* What the kernel, and the records that stand for it, say of a vCPU thread: cgroups, and the CPUs it was given. */
#ifndef VPMU_CLAIM_H
#define VPMU_CLAIM_H

#include "cpus.h"

#define CLAIM_EVERY_NS 100000000ull

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

/* Begins anew with a thread: its identity, which a later thread with its tid does not share. */
void claim_begin(struct claim_thread *thread, const struct claim_source *source, int32_t pid, int32_t tid);

void claim_read(struct claim_thread *thread, const struct claim_source *source, struct cpus_claim *claim);

#endif
