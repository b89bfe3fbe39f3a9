// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "nodemap.h"

#include <stdio.h>
#include <string.h>

#define NODEMAP_NONE 0xffu

static void put(struct nodemap *map, unsigned int socket, unsigned int node)
{
    map->node_of_socket[socket] = (uint8_t)node;
    if (node >= map->node_count)
        map->node_count = node + 1;
}

static bool parse_pair(struct nodemap *map, const char *pair, uint32_t socket_count, struct problem *problem)
{
    unsigned int socket, node;
    int used = 0;
    bool is_pair = sscanf(pair, "%4u:%4u%n", &socket, &node, &used) == 2 && !pair[used];
    if (!is_pair || socket >= socket_count || node >= VPMU_MAX_SOCKETS)
        return problem_set(problem,
                           "nodemap=...%.40s...: must be socket:node with socket below %u (as cpumap has it) and node "
                           "below %u, such as 0:0;1:0, or one-to-one",
                           pair, socket_count, VPMU_MAX_SOCKETS);
    if (map->node_of_socket[socket] != NODEMAP_NONE)
        return problem_set(problem, "nodemap=...%.40s...: socket %u is there twice; give it one node", pair, socket);
    put(map, socket, node);
    return true;
}

static bool parse_pairs(struct nodemap *map, const char *text, uint32_t socket_count, struct problem *problem)
{
    char copy[256], *rest, *pair;
    if (strlen(text) >= sizeof copy)
        return problem_set(problem, "nodemap: longer than %zu characters; name each socket once", sizeof copy - 1);
    strcpy(copy, text);
    for (pair = strtok_r(copy, "; ", &rest); pair; pair = strtok_r(NULL, "; ", &rest))
        if (!parse_pair(map, pair, socket_count, problem))
            return false;
    for (uint32_t socket = 0; socket < socket_count; socket++)
        if (map->node_of_socket[socket] == NODEMAP_NONE)
            return problem_set(problem, "nodemap=%.60s: socket %u has no node; add %u:NODE", text, socket, socket);
    return true;
}

bool nodemap_parse(struct nodemap *map, const char *text, uint32_t socket_count, struct problem *problem)
{
    memset(map->node_of_socket, NODEMAP_NONE, sizeof map->node_of_socket);
    map->node_count = 0;
    if (strcmp(text, "one-to-one"))
        return parse_pairs(map, text, socket_count, problem);
    for (uint32_t socket = 0; socket < socket_count; socket++)
        put(map, socket, socket);
    return true;
}
