// SPDX-License-Identifier: Apache-2.0
/* Sets of modelled CPUs, as shared memory holds them and as the kernel writes them: `0-3,6`. */
#ifndef VPMU_CPUMASK_H
#define VPMU_CPUMASK_H

#include <stdbool.h>

#include "vpmu_layout.h"

/* The CPUs of the list that are below `cpu_count`; empty for a text that is no list. */
struct vpmu_cpumask cpumask_parse(const char *text, uint32_t cpu_count);

struct vpmu_cpumask cpumask_all(uint32_t cpu_count);

bool cpumask_has(const struct vpmu_cpumask *mask, uint32_t cpu);
bool cpumask_is_empty(const struct vpmu_cpumask *mask);

#endif
