// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "siblings.h"

#include <stdio.h>
#include <string.h>

static bool join(struct siblings *siblings, unsigned int cpu, unsigned int other, struct problem *problem)
{
    bool is_new = !siblings->of_cpu[cpu] && !siblings->of_cpu[other];
    if (cpu == other || (!is_new && siblings->of_cpu[cpu] != other + 1))
        return problem_set(problem, "siblings: CPUs %u and %u cannot be one core; give each CPU one other sibling", cpu,
                           other);
    siblings->of_cpu[cpu] = (uint16_t)(other + 1);
    siblings->of_cpu[other] = (uint16_t)(cpu + 1);
    return true;
}

static bool parse_pairs(struct siblings *siblings, const char *text, struct problem *problem)
{
    char copy[1024], *rest, *pair;
    if (strlen(text) >= sizeof copy)
        return problem_set(problem, "siblings: longer than %zu characters; use auto", sizeof copy - 1);
    strcpy(copy, text);
    for (pair = strtok_r(copy, "; ", &rest); pair; pair = strtok_r(NULL, "; ", &rest)) {
        unsigned int cpu, other;
        int used = 0;
        bool is_pair = sscanf(pair, "%4u:%4u%n", &cpu, &other, &used) == 2 && !pair[used];
        if (!is_pair || cpu >= VPMU_MAX_CPUS || other >= VPMU_MAX_CPUS)
            return problem_set(problem, "siblings=...%.40s...: must be cpu:cpu below %u, such as 0:8;1:9, auto or none",
                               pair, VPMU_MAX_CPUS);
        if (!join(siblings, cpu, other, problem))
            return false;
    }
    return true;
}

/* A kernel's list of at most two CPUs: `3`, `3,11` or `6-7`. */
static bool read_list(struct siblings *siblings, unsigned int cpu, const char *list, struct problem *problem)
{
    unsigned int first, second;
    int used = 0;
    if (sscanf(list, "%u%n", &first, &used) == 1 && first == cpu && list[used] == '\n')
        return true;
    bool is_pair = sscanf(list, "%u%*[,-]%u%n", &first, &second, &used) == 2 && list[used] == '\n';
    bool is_range = is_pair && strchr(list, '-') && second != first + 1;
    if (!is_pair || is_range || first >= VPMU_MAX_CPUS || second >= VPMU_MAX_CPUS || (first != cpu && second != cpu))
        return problem_set(problem,
                           "siblings=auto: thread_siblings_list of CPU %u is \"%.40s\"; two threads of a core are "
                           "modelled: give siblings=cpu:cpu pairs, or none",
                           cpu, list);
    return join(siblings, first, second, problem);
}

static bool read_sysfs(struct siblings *siblings, const char *root, struct problem *problem)
{
    char path[512], list[128];
    for (unsigned int cpu = 0; cpu < VPMU_MAX_CPUS; cpu++) {
        snprintf(path, sizeof path, "%.400s/cpu%u/topology/thread_siblings_list", root, cpu);
        FILE *file = fopen(path, "r");
        if (!file)
            continue;
        bool is_read = fgets(list, sizeof list, file);
        fclose(file);
        if (!read_list(siblings, cpu, is_read ? list : "", problem))
            return false;
    }
    return true;
}

bool siblings_read(struct siblings *siblings, const char *text, const char *root, struct problem *problem)
{
    memset(siblings, 0, sizeof *siblings);
    if (!strcmp(text, "none"))
        return true;
    return !strcmp(text, "auto") ? read_sysfs(siblings, root, problem) : parse_pairs(siblings, text, problem);
}
