// SPDX-License-Identifier: Apache-2.0
// The CPUs that threads were given: a file for each, in the folder of the software PMU.
#define _GNU_SOURCE
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "modelled_cpus.h"
#include "threads.h"

enum { PATH_BYTES = 1024, RECORD_BYTES = 2048 };

bool modelled_is_on(void)
{
    return getenv("NUMA_SHIM_VPMU") != NULL;
}

static int cpu_count(void)
{
    const char *count = getenv("NUMA_SHIM_MODELLED_CPUS");
    return count ? atoi(count) : 0;
}

static void make_path(char path[PATH_BYTES], const char *name)
{
    snprintf(path, PATH_BYTES, "%s/affinity%s%s", getenv("NUMA_SHIM_VPMU"), *name ? "/" : "", name);
}

static bool make_folder(void)
{
    char folder[PATH_BYTES];
    make_path(folder, "");
    return (!mkdir(folder, 01777) && !chmod(folder, 01777)) || errno == EEXIST;
}

// "0,3,4": the modelled ones of a set; how many.
static int format_list(char *text, size_t size, size_t set_size, const cpu_set_t *cpus)
{
    int found = 0;
    size_t length = 0;
    for (int cpu = 0; cpu < cpu_count() && cpu < (int)set_size * 8; cpu++)
        if (CPU_ISSET_S(cpu, set_size, cpus) && length < size)
            length += (size_t)snprintf(text + length, size - length, found++ ? ",%d" : "%d", cpu);
    return found;
}

// A record outlives its thread; tids of another namespace tell nothing here.
static void remove_dead_records(void)
{
    char folder[PATH_BYTES], name[64];
    struct stat unused;
    make_path(folder, "");
    DIR *records = opendir(folder);
    for (struct dirent *entry; records && (entry = readdir(records));) {
        snprintf(name, sizeof name, "/proc/%.32s", entry->d_name);
        if (isdigit((unsigned char)*entry->d_name) && stat(name, &unused))
            unlinkat(dirfd(records), entry->d_name, 0);
    }
    if (records)
        closedir(records);
}

static int write_record(const struct thread *thread, const char *list)
{
    char name[32], fresh_name[64], path[PATH_BYTES], fresh[PATH_BYTES];
    snprintf(name, sizeof name, "%d", thread->tid);
    snprintf(fresh_name, sizeof fresh_name, ".%s.%d", name, getpid());
    make_path(path, name);
    make_path(fresh, fresh_name);
    FILE *file = make_folder() ? fopen(fresh, "w") : NULL;
    if (!file)
        return -1;
    fprintf(file, "%lu %s\n", thread->started_ticks, list);
    if (fclose(file) || chmod(fresh, 0644) || rename(fresh, path))
        return -1;
    if (thread->is_in_own_namespace)
        remove_dead_records();
    return 0;
}

int modelled_set_affinity(pid_t tid, size_t size, const cpu_set_t *cpus)
{
    struct thread thread;
    char list[RECORD_BYTES];
    if (!thread_read(tid, &thread)) {
        errno = ESRCH;
        return -1;
    }
    if (!format_list(list, sizeof list, size, cpus)) {
        errno = EINVAL; // as the kernel: no such CPU
        return -1;
    }
    return write_record(&thread, list);
}

static bool read_record(const struct thread *thread, size_t size, cpu_set_t *cpus)
{
    char name[32], path[PATH_BYTES], text[RECORD_BYTES], *at;
    snprintf(name, sizeof name, "%d", thread->tid);
    make_path(path, name);
    if (read_past_shim(path, text, sizeof text) <= 0 || strtoul(text, &at, 10) != thread->started_ticks)
        return false;
    while (*at == ' ' || *at == ',') {
        unsigned long cpu = strtoul(at + 1, &at, 10);
        if (cpu < size * 8)
            CPU_SET_S(cpu, size, cpus);
    }
    return CPU_COUNT_S(size, cpus) > 0;
}

// A thread without a record has what its process was given, or every modelled CPU.
int modelled_get_affinity(pid_t tid, size_t size, cpu_set_t *cpus)
{
    struct thread thread, leader;
    if (!thread_read(tid, &thread)) {
        errno = ESRCH;
        return -1;
    }
    CPU_ZERO_S(size, cpus);
    if (read_record(&thread, size, cpus) || (thread_read(thread.leader, &leader) && read_record(&leader, size, cpus)))
        return 0;
    for (int cpu = 0; cpu < cpu_count() && cpu < (int)size * 8; cpu++)
        CPU_SET_S(cpu, size, cpus);
    return 0;
}
