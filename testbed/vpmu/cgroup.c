// SPDX-License-Identifier: Apache-2.0
#include "cgroup.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PATH_BYTES 1024
#define STANDARD_WEIGHT_V2 100

struct hierarchy {
    bool is_unified;
    char root[PATH_BYTES];
    char path[PATH_BYTES]; /* of the group in it, without a slash at its end */
};

struct level {
    uint32_t weight; /* in units of version 1 */
    uint32_t quota_us;
    uint32_t period_us;
};

static bool read_text(const char *path, char *text, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    ssize_t length = read(fd, text, size - 1);
    close(fd);
    text[length > 0 ? length : 0] = 0;
    return length > 0;
}

static bool read_file(const struct hierarchy *hierarchy, const char *name, char *text, size_t size)
{
    char path[2 * PATH_BYTES + 64];
    snprintf(path, sizeof path, "%s%s/%s", hierarchy->root, hierarchy->path, name);
    return read_text(path, text, size);
}

static long read_number(const struct hierarchy *hierarchy, const char *name, long absent)
{
    char text[64];
    return read_file(hierarchy, name, text, sizeof text) ? atol(text) : absent;
}

static bool names_cpu(const char *controllers, size_t length)
{
    while (length) {
        size_t word = strcspn(controllers, ",:");
        if (word == 3 && !strncmp(controllers, "cpu", 3))
            return true;
        if (word >= length)
            return false;
        controllers += word + 1;
        length -= word + 1;
    }
    return false;
}

static void take_line(struct hierarchy *hierarchy, const char *mount, const char *controllers, size_t length,
                      const char *path)
{
    hierarchy->is_unified = !length;
    snprintf(hierarchy->root, sizeof hierarchy->root, "%.*s%s%.*s", PATH_BYTES / 2, mount, length ? "/" : "",
             (int)length, controllers);
    snprintf(hierarchy->path, sizeof hierarchy->path, "%.*s", (int)strcspn(path, "\n"), path);
    size_t end = strlen(hierarchy->path);
    if (end && hierarchy->path[end - 1] == '/')
        hierarchy->path[end - 1] = 0;
}

/* The hierarchy that has the cpu controller: of version 1 where there is one, else the unified one. */
static bool find_hierarchy(struct hierarchy *hierarchy, const char *mount, const char *membership)
{
    bool is_found = false;
    for (const char *line = membership; line && *line; line = strchr(line, '\n'), line += line ? 1 : 0) {
        const char *controllers = strchr(line, ':');
        const char *path = controllers ? strchr(++controllers, ':') : NULL;
        if (!path)
            continue;
        size_t length = (size_t)(path - controllers);
        if (length && !names_cpu(controllers, length))
            continue;
        if (length || !is_found)
            take_line(hierarchy, mount, controllers, length, path + 1);
        is_found = true;
        if (length)
            break;
    }
    return is_found;
}

static struct level read_v1(const struct hierarchy *hierarchy)
{
    long quota_us = read_number(hierarchy, "cpu.cfs_quota_us", -1);
    return (struct level){
        .weight = (uint32_t)read_number(hierarchy, "cpu.shares", CPUS_STANDARD_WEIGHT),
        .quota_us = quota_us > 0 ? (uint32_t)quota_us : 0,
        .period_us = (uint32_t)read_number(hierarchy, "cpu.cfs_period_us", 0),
    };
}

static struct level read_v2(const struct hierarchy *hierarchy)
{
    char text[64];
    unsigned int quota_us = 0, period_us = 0;
    if (read_file(hierarchy, "cpu.max", text, sizeof text) && sscanf(text, "%u %u", &quota_us, &period_us) != 2)
        quota_us = 0; /* "max" */
    long weight = read_number(hierarchy, "cpu.weight", STANDARD_WEIGHT_V2);
    return (struct level){
        .weight = (uint32_t)(weight * CPUS_STANDARD_WEIGHT / STANDARD_WEIGHT_V2),
        .quota_us = quota_us,
        .period_us = period_us,
    };
}

static bool is_tighter(const struct level *level, const struct cpus_claim *claim)
{
    return level->quota_us && (!claim->vm_quota_us || (uint64_t)level->quota_us * claim->vm_period_us <
                                                          (uint64_t)claim->vm_quota_us * level->period_us);
}

static void add_level(struct cpus_claim *claim, double *weight, const struct level *level, const char *path)
{
    bool is_nearest = !*claim->vm_group;
    *weight *= (double)level->weight / CPUS_STANDARD_WEIGHT;
    if (is_nearest || is_tighter(level, claim))
        snprintf(claim->vm_group, sizeof claim->vm_group, "%s", path);
    if (!is_tighter(level, claim))
        return;
    claim->vm_quota_us = level->quota_us;
    claim->vm_period_us = level->period_us;
}

void cgroup_read(struct cpus_claim *claim, const char *mount, const char *membership)
{
    struct hierarchy own;
    double weight = CPUS_STANDARD_WEIGHT;
    bool is_vcpu_level = true;
    char *slash;
    if (!find_hierarchy(&own, mount, membership))
        return;
    while ((slash = strrchr(own.path, '/'))) {
        struct level level = own.is_unified ? read_v2(&own) : read_v1(&own);
        if (is_vcpu_level && !strncmp(slash + 1, "vcpu", 4)) {
            claim->weight = level.weight;
            claim->quota_us = level.quota_us;
            claim->period_us = level.period_us;
        } else {
            add_level(claim, &weight, &level, own.path);
        }
        is_vcpu_level = false;
        *slash = 0;
    }
    claim->vm_weight = weight < 1e6 ? (uint32_t)weight : 1000000;
}
