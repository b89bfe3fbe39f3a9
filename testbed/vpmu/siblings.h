// SPDX-License-Identifier: Apache-2.0
/*
 * Which CPUs are the two threads of one core: given as pairs, or read from sysfs, where a lab may show a topology of its
 * own. What a busy sibling costs is vm.c's.
 */
#ifndef VPMU_SIBLINGS_H
#define VPMU_SIBLINGS_H

#include "model.h"
#include "problem.h"

struct siblings {
    uint16_t of_cpu[VPMU_MAX_CPUS]; /* its sibling + 1; 0: it has a core of its own */
};

#define SIBLINGS_SYSFS "/sys/devices/system/cpu"

/* `none`, `auto`, or `0:8;1:9` separated by semicolons or blanks; `root` is where `auto` reads. */
bool siblings_read(struct siblings *siblings, const char *text, const char *root, struct problem *problem);

#endif
