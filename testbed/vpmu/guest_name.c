// SPDX-License-Identifier: Apache-2.0
#include "guest_name.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CMDLINE_BYTES (256 * 1024)

/* Copies up to the first single comma; QEMU writes a comma within a value twice. */
static void copy_value(const char *value, char name[VPMU_NAME_BYTES])
{
    size_t length = 0;
    for (; *value && length < VPMU_NAME_BYTES - 1; value++) {
        if (*value == ',' && *++value != ',')
            break;
        name[length++] = *value;
    }
    name[length] = 0;
}

static void take_name(const char *option, char name[VPMU_NAME_BYTES])
{
    const char *guest = !strncmp(option, "guest=", 6) ? option : strstr(option, ",guest=");
    copy_value(guest ? strchr(guest, '=') + 1 : option, name);
}

bool guest_name_find(const char *arguments, size_t bytes, char name[VPMU_NAME_BYTES])
{
    const char *end = arguments + bytes;
    bool is_next = false;
    for (const char *word = arguments; word < end; word += strlen(word) + 1) {
        if (is_next) {
            take_name(word, name);
            return true;
        }
        is_next = !strcmp(word, "-name") || !strcmp(word, "--name");
    }
    return false;
}

bool guest_name_read(char name[VPMU_NAME_BYTES], struct problem *problem)
{
    bool is_found = false;
    FILE *file = fopen("/proc/self/cmdline", "r");
    char *arguments = calloc(1, CMDLINE_BYTES);
    if (file && arguments)
        is_found = guest_name_find(arguments, fread(arguments, 1, CMDLINE_BYTES - 1, file), name);
    free(arguments);
    if (file)
        fclose(file);
    return is_found || problem_set(problem, "name: QEMU was started without -name; give name=");
}

bool guest_name_check(const char *name, struct problem *problem)
{
    /* The longest prefix is "error."; a file name has at most 255 bytes. */
    size_t most = 255 - strlen("error.");
    if (!*name || strlen(name) > most || strchr(name, '/'))
        return problem_set(problem, "name=%.60s: must have 1 to %zu characters and no slash", name, most);
    return true;
}
