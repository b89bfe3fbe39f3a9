// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "scratch.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char root[] = "/tmp/test-of-the-pmu-XXXXXX";

void scratch_make(void)
{
    strcpy(root + strlen(root) - 6, "XXXXXX");
    if (!mkdtemp(root))
        abort();
}

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *place)
{
    (void)status, (void)type, (void)place;
    return remove(path);
}

void scratch_remove(void)
{
    nftw(root, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

const char *scratch_path(const char *name)
{
    static char paths[4][SCRATCH_PATH_BYTES];
    static int turn;
    char *path = paths[turn++ % 4];
    snprintf(path, SCRATCH_PATH_BYTES, "%s/%s", root, name);
    return path;
}

void scratch_write(const char *name, const void *bytes, size_t count)
{
    char path[SCRATCH_PATH_BYTES];
    strcpy(path, scratch_path(name));
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        mkdir(path, 0777);
        *slash = '/';
    }
    FILE *file = fopen(path, "w");
    if (!file || fwrite(bytes, 1, count, file) != count || fclose(file))
        abort();
}

void scratch_write_text(const char *name, const char *text)
{
    scratch_write(name, text, strlen(text));
}

bool scratch_has(const char *name)
{
    return !access(scratch_path(name), F_OK);
}

long scratch_read(const char *name, void *bytes, size_t count)
{
    FILE *file = fopen(scratch_path(name), "r");
    if (!file)
        return -1;
    long got = (long)fread(bytes, 1, count, file);
    fclose(file);
    return got;
}
