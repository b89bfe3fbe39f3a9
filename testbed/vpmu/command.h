// SPDX-License-Identifier: Apache-2.0
/* The subcommands of `vpmu`; each returns the process's exit status. */
#ifndef VPMU_COMMAND_H
#define VPMU_COMMAND_H

#include <stdbool.h>

struct command_options {
    const char *directory;
    bool is_json;
    long interval_ms;
    long count; /* 0 = until interrupted */
};

int command_list(const struct command_options *options);
int command_watch(const struct command_options *options, char **names, int name_count);
int command_set(const struct command_options *options, const char *name, const char *control, const char *value);
int command_layout(void);
int command_siblings(const char *root); /* NULL: this machine's */

#endif
