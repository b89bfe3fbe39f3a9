// SPDX-License-Identifier: Apache-2.0
/* Which memory node a modelled socket is on: one to one, or given as `socket:node` pairs so that LLCs share a node. */
#ifndef VPMU_NODEMAP_H
#define VPMU_NODEMAP_H

#include "problem.h"
#include "vpmu_layout.h"

struct nodemap {
    uint8_t node_of_socket[VPMU_MAX_SOCKETS];
    uint32_t node_count;
};

/* `one-to-one`, or `0:0;1:0` separated by semicolons or blanks: each of the `socket_count` sockets once. */
bool nodemap_parse(struct nodemap *map, const char *text, uint32_t socket_count, struct problem *problem);

#endif
