// SPDX-License-Identifier: Apache-2.0
#include "claim.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cgroup.h"
#include "cpumask.h"

#define PATH_BYTES 1200
#define RECORD_BYTES 2048
/* Of /proc/T/stat, counted after the parenthesised command, which may hold blanks. */
#define STAT_STARTTIME 20

bool claim_is_due(const struct claim_clock *clock, uint64_t now_ns, uint64_t cpu_ns)
{
    if (!clock->read_ns || now_ns >= clock->read_ns + CLAIM_LATEST_NS)
        return true;
    return now_ns >= clock->read_ns + CLAIM_EVERY_NS && cpu_ns >= clock->read_cpu_ns + CLAIM_COSTS * clock->cost_ns;
}

static bool read_text(const char *path, char *text, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return false;
    ssize_t length = read(fd, text, size - 1);
    close(fd);
    text[length > 0 ? length : 0] = 0;
    return length > 0;
}

static uint64_t read_started_ticks(const struct claim_source *source, int32_t tid)
{
    char path[PATH_BYTES], text[1024], *field;
    snprintf(path, sizeof path, "%.1000s/task/%d/stat", source->process, tid);
    if (!read_text(path, text, sizeof text) || !(field = strrchr(text, ')')))
        return 0;
    for (int i = 0; field && i < STAT_STARTTIME; i++)
        field = strchr(field + 1, ' ');
    return field ? strtoull(field, NULL, 10) : 0;
}

void claim_begin(struct claim_thread *thread, const struct claim_source *source, int32_t pid, int32_t tid)
{
    *thread = (struct claim_thread){
        .pid = pid,
        .tid = tid,
        .pid_started_ticks = read_started_ticks(source, pid),
        .tid_started_ticks = read_started_ticks(source, tid),
    };
}

/* False without a record of this very thread: a tid comes back, its moment of start does not. */
static bool read_record(const struct claim_source *source, int32_t tid, uint64_t started_ticks,
                        struct vpmu_cpumask *allowed)
{
    char path[PATH_BYTES], text[RECORD_BYTES], *list;
    snprintf(path, sizeof path, "%.1000s/affinity/%d", source->directory, tid);
    if (!read_text(path, text, sizeof text) || strtoull(text, &list, 10) != started_ticks || *list != ' ')
        return false;
    *allowed = cpumask_parse(list + 1, source->cpu_count);
    return !cpumask_is_empty(allowed);
}

static struct vpmu_cpumask read_allowed(struct claim_thread *thread, const struct claim_source *source)
{
    struct vpmu_cpumask own;
    if (read_record(source, thread->tid, thread->tid_started_ticks, &own))
        return own;
    if (!thread->has_inherited &&
        !read_record(source, thread->pid, thread->pid_started_ticks, &thread->inherited))
        thread->inherited = cpumask_all(source->cpu_count);
    thread->has_inherited = true;
    return thread->inherited;
}

void claim_read(struct claim_thread *thread, const struct claim_source *source, struct cpus_claim *claim)
{
    char path[PATH_BYTES], membership[4096];
    *claim = (struct cpus_claim){
        .allowed = read_allowed(thread, source),
        .weight = CPUS_STANDARD_WEIGHT,
        .vm_weight = CPUS_STANDARD_WEIGHT,
    };
    snprintf(path, sizeof path, "%.1000s/task/%d/cgroup", source->process, thread->tid);
    if (read_text(path, membership, sizeof membership))
        cgroup_read(claim, source->cgroups, membership);
}
