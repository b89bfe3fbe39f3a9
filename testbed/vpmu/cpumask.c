// SPDX-License-Identifier: Apache-2.0
#include "cpumask.h"

#include <ctype.h>
#include <stdlib.h>

static void add_range(struct vpmu_cpumask *mask, unsigned long first, unsigned long last, uint32_t cpu_count)
{
    for (unsigned long cpu = first; cpu <= last && cpu < cpu_count && cpu < VPMU_MAX_MODELLED_CPUS; cpu++)
        mask->word[cpu / 64] |= 1ull << cpu % 64;
}

struct vpmu_cpumask cpumask_all(uint32_t cpu_count)
{
    struct vpmu_cpumask mask = {{0}};
    add_range(&mask, 0, VPMU_MAX_MODELLED_CPUS, cpu_count);
    return mask;
}

struct vpmu_cpumask cpumask_parse(const char *text, uint32_t cpu_count)
{
    struct vpmu_cpumask mask = {{0}};
    while (isdigit((unsigned char)*text)) {
        char *end;
        unsigned long first = strtoul(text, &end, 10), last = first;
        if (*end == '-' && isdigit((unsigned char)end[1]))
            last = strtoul(end + 1, &end, 10);
        add_range(&mask, first, last, cpu_count);
        text = *end == ',' ? end + 1 : end;
    }
    return *text && !isspace((unsigned char)*text) ? (struct vpmu_cpumask){{0}} : mask;
}

bool cpumask_has(const struct vpmu_cpumask *mask, uint32_t cpu)
{
    return cpu < VPMU_MAX_MODELLED_CPUS && __atomic_load_n(&mask->word[cpu / 64], __ATOMIC_RELAXED) >> cpu % 64 & 1;
}

bool cpumask_is_empty(const struct vpmu_cpumask *mask)
{
    for (uint32_t i = 0; i < VPMU_CPU_WORDS; i++)
        if (mask->word[i])
            return false;
    return true;
}
