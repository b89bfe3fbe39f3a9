// SPDX-License-Identifier: Apache-2.0
/*
 * What a directory's vm files say at one moment, copied out: read with pread, so that a file cut short by somebody
 * cannot kill the reader. Files of dead VMs are left out.
 */
#ifndef VPMU_SNAPSHOT_H
#define VPMU_SNAPSHOT_H

#include "problem.h"
#include "vpmu_layout.h"

/* The header up to the fields that matter here; the chunk map stays in the file. */
struct vm_snapshot {
    char name[VPMU_NAME_BYTES];
    int32_t pid;
    uint32_t vcpu_count;
    uint32_t sample;
    uint32_t socket_count;
    uint32_t node_count;
    uint32_t has_shadow;
    uint32_t phase;
    uint32_t mhz;
    uint64_t started_ns;
    uint64_t taken_ns; /* CLOCK_MONOTONIC */
    struct vpmu_slot slots[VPMU_MAX_VCPUS];
};

enum snapshot_result { SNAPSHOT_TAKEN, SNAPSHOT_DEAD, SNAPSHOT_REFUSED };

enum snapshot_result snapshot_take(const char *directory, const char *name, struct vm_snapshot *snapshot,
                                   struct problem *problem);

/* Of a file's memory: chunks lie on nodes below it. */
uint32_t snapshot_node_count(const struct vpmu_vm_header *head);

/* The header of a living VM, mapped for writing its live controls; NULL on refusal. */
struct vpmu_vm_header *snapshot_map_controls(const char *directory, const char *name, struct problem *problem);

/* What follows `prefix` in the names of a directory's files, sorted; free the array and its members. */
int snapshot_names(const char *directory, const char *prefix, char ***names, struct problem *problem);

#endif
