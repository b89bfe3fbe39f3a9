// SPDX-License-Identifier: Apache-2.0
/*
 * The plugin's options: `-plugin vpmu.so,key=value,...` and the same keys, one a line, in the file that `conf=` names.
 * Later values win. Every key, its default and its limits stand in one table in config.c.
 */
#ifndef VPMU_CONFIG_H
#define VPMU_CONFIG_H

#include "model.h"
#include "problem.h"

#define CONFIG_TEXT_BYTES 1024

struct config {
    struct model_config model;
    uint32_t mhz;
    uint32_t cpi_x100;
    uint32_t busy; /* 1: stalls keep the CPU busy, and modelled time is CPU time */
    uint32_t cpus; /* modelled CPUs whose time the vCPUs share, 0 = each vCPU has one to itself */
    uint32_t sibling_percent; /* of what a core does for one thread alone, that each of two busy ones gets */
    uint32_t bandwidth; /* lines per 1000 cycles that one memory controller can move, 0 = no contention */
    uint32_t write_bandwidth; /* of these, lines that it can write, 0 = no limit of their own */
    uint32_t pace_after_s;
    uint32_t pace_after_user_minstr;
    char dir[CONFIG_TEXT_BYTES];
    char name[CONFIG_TEXT_BYTES]; /* empty: from QEMU's command line */
    char cpumap[CONFIG_TEXT_BYTES];
    char nodemap[CONFIG_TEXT_BYTES];
    char siblings[CONFIG_TEXT_BYTES];
};

void config_set_defaults(struct config *config);

/* One `key=value`; `conf=PATH` reads that file. */
bool config_apply(struct config *config, const char *assignment, struct problem *problem);

/* What no single key can tell: sizes that must fit each other. */
bool config_check(const struct config *config, struct problem *problem);

/* Prints every key with its default and limits. */
void config_describe(void);

#endif
