// SPDX-License-Identifier: Apache-2.0
/* One step of the modelled scheduler; its caller holds the table's lock. */
#ifndef VPMU_CPUS_SIMULATE_H
#define VPMU_CPUS_SIMULATE_H

#include "cpus.h"

/*
 * From `at_ns` on, for `step_ns`: on each CPU the runnable vCPU with the least weighted run time has it, unless the one
 * that had it is not yet a granularity ahead. The others wait, or are throttled where a quota is used up.
 */
void cpus_simulate_step(struct vpmu_cpus *table, uint64_t at_ns, uint64_t step_ns);

#endif
