// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "cpumap.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

static void clear(struct cpumap *map)
{
    memset(map->socket_of_cpu, CPUMAP_NONE, sizeof map->socket_of_cpu);
    map->socket_count = 0;
}

static void put(struct cpumap *map, unsigned int cpu, unsigned int socket)
{
    map->socket_of_cpu[cpu] = (uint8_t)socket;
    if (socket >= map->socket_count)
        map->socket_count = socket + 1;
}

static bool parse_pair(struct cpumap *map, const char *pair, struct problem *problem)
{
    unsigned int cpu, socket;
    int used = 0;
    bool is_pair = sscanf(pair, "%4u:%4u%n", &cpu, &socket, &used) == 2 && !pair[used];
    if (!is_pair || cpu >= VPMU_MAX_CPUS || socket >= VPMU_MAX_SOCKETS)
        return problem_set(problem,
                           "cpumap=...%.40s...: must be cpu:socket with cpu below %u and socket below %u, such as "
                           "0:0;1:1, or auto",
                           pair, VPMU_MAX_CPUS, VPMU_MAX_SOCKETS);
    put(map, cpu, socket);
    return true;
}

bool cpumap_parse(struct cpumap *map, const char *text, struct problem *problem)
{
    char copy[1024], *rest, *pair;
    if (strlen(text) >= sizeof copy)
        return problem_set(problem, "cpumap: longer than %zu characters; use auto", sizeof copy - 1);
    strcpy(copy, text);
    clear(map);
    for (pair = strtok_r(copy, "; ", &rest); pair; pair = strtok_r(NULL, "; ", &rest))
        if (!parse_pair(map, pair, problem))
            return false;
    if (!map->socket_count)
        return problem_set(problem, "cpumap=%.60s: names no CPU; use pairs such as 0:0;1:1, or auto", text);
    return true;
}

/* 1 = read, 0 = no such CPU, -1 = refused. */
static int read_cpu(struct cpumap *map, const char *root, unsigned int cpu, struct problem *problem)
{
    char path[512];
    int socket = -1;
    snprintf(path, sizeof path, "%.400s/cpu%u/topology/physical_package_id", root, cpu);
    FILE *file = fopen(path, "r");
    if (!file)
        return 0;
    int fields = fscanf(file, "%d", &socket);
    fclose(file);
    if (fields != 1 || socket < 0 || socket >= (int)VPMU_MAX_SOCKETS) {
        problem_set(problem, "cpumap=auto: %s must hold a number below %u; give cpumap=cpu:socket pairs instead", path,
                    VPMU_MAX_SOCKETS);
        return -1;
    }
    put(map, cpu, (unsigned int)socket);
    return 1;
}

bool cpumap_read(struct cpumap *map, const char *root, struct problem *problem)
{
    clear(map);
    for (unsigned int cpu = 0; cpu < VPMU_MAX_CPUS; cpu++)
        if (read_cpu(map, root, cpu, problem) < 0)
            return false;
    if (!map->socket_count)
        return problem_set(problem, "cpumap=auto: no CPU topology below %.300s; give cpumap=cpu:socket pairs instead",
                           root);
    return true;
}

bool cpumap_check_affinity(const struct cpumap *map, struct problem *problem)
{
    cpu_set_t allowed;
    if (sched_getaffinity(0, sizeof allowed, &allowed))
        return problem_set(problem, "cpumap: own affinity cannot be read: %s", strerror(errno));
    for (unsigned int cpu = 0; cpu < CPU_SETSIZE && cpu < VPMU_MAX_CPUS; cpu++)
        if (CPU_ISSET(cpu, &allowed) && map->socket_of_cpu[cpu] == CPUMAP_NONE)
            return problem_set(problem, "cpumap: QEMU may run on CPU %u, which is not in the map; add %u:SOCKET", cpu,
                               cpu);
    return true;
}

bool cpumap_check_modelled(const struct cpumap *map, uint32_t cpu_count, struct problem *problem)
{
    for (uint32_t cpu = 0; cpu < cpu_count; cpu++)
        if (map->socket_of_cpu[cpu] == CPUMAP_NONE)
            return problem_set(problem, "cpus=%u: CPU %u is not in the cpumap; add %u:SOCKET, or lower cpus", cpu_count,
                               cpu, cpu);
    return true;
}
