// SPDX-License-Identifier: Apache-2.0
/* `vpmu set VM mhz|home VALUE`: writes a live control of a running VM. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "snapshot.h"

#define MAX_MHZ 10000

/* -1 when `text` is not a whole number from 0 to `max`. */
static long parse(const char *text, long max)
{
    char *end;
    long number = strtol(text, &end, 10);
    return isdigit((unsigned char)*text) && !*end && number <= max ? number : -1;
}

static bool set_mhz(struct vpmu_vm_header *header, const char *value, struct problem *problem)
{
    long mhz = parse(value, MAX_MHZ);
    if (mhz < 0)
        return problem_set(problem, "mhz %s: must be from 1 to %d, or 0 for unpaced", value, MAX_MHZ);
    __atomic_store_n(&header->mhz, (uint32_t)mhz, __ATOMIC_RELAXED);
    return true;
}

/* As if all of the VM's memory had been moved to that node, untouched chunks included. */
static bool set_home(struct vpmu_vm_header *header, const char *value, struct problem *problem)
{
    long node = parse(value, (long)snapshot_node_count(header) - 1);
    if (!strcmp(value, "first-touch"))
        node = VPMU_NODE_UNKNOWN;
    if (node < 0)
        return problem_set(problem, "home %s: must be a node from 0 to %u, or first-touch", value,
                           snapshot_node_count(header) - 1);
    memset(header->chunk_node, (int)node, sizeof header->chunk_node);
    return true;
}

static bool set_control(struct vpmu_vm_header *header, const char *control, const char *value,
                        struct problem *problem)
{
    if (!strcmp(control, "mhz"))
        return set_mhz(header, value, problem);
    if (!strcmp(control, "home"))
        return set_home(header, value, problem);
    return problem_set(problem, "%s: no such control; there are mhz and home", control);
}

int command_set(const struct command_options *options, const char *name, const char *control, const char *value)
{
    struct problem problem;
    struct vpmu_vm_header *header = snapshot_map_controls(options->directory, name, &problem);
    if (header && set_control(header, control, value, &problem))
        return 0;
    fprintf(stderr, "vpmu: %s\n", problem.text);
    return 1;
}
