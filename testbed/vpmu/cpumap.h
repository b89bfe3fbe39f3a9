// SPDX-License-Identifier: Apache-2.0
/*
 * Which modelled socket a host CPU belongs to: given as `cpu:socket` pairs or read from sysfs, where a lab may show a
 * topology of its own. A socket is what shares one LLC; nodemap.h tells its memory node.
 */
#ifndef VPMU_CPUMAP_H
#define VPMU_CPUMAP_H

#include "model.h"
#include "problem.h"

#define CPUMAP_SYSFS "/sys/devices/system/cpu"

struct cpumap {
    uint8_t socket_of_cpu[VPMU_MAX_CPUS]; /* CPUMAP_NONE: not in the map */
    uint32_t socket_count;
};

#define CPUMAP_NONE 0xffu

/* `0:0;1:1`, separated by semicolons or blanks. */
bool cpumap_parse(struct cpumap *map, const char *text, struct problem *problem);

/* From cpuN/topology/physical_package_id below `root`. */
bool cpumap_read(struct cpumap *map, const char *root, struct problem *problem);

/* Every CPU that this process may run on must be in the map. */
bool cpumap_check_affinity(const struct cpumap *map, struct problem *problem);

/* Every modelled CPU must be in the map. */
bool cpumap_check_modelled(const struct cpumap *map, uint32_t cpu_count, struct problem *problem);

#endif
