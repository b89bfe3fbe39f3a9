// SPDX-License-Identifier: Apache-2.0
/*
 * Lets a virtual host show NUMA cells and CPUs that the machine does not have. Preloaded into libvirtd,
 * which hands LD_PRELOAD on to QEMU.
 *
 * What is not real is recorded, never enforced:
 *  - writes to a cgroup's cpuset.mems (and, with NUMA_SHIM_CPUS set, cpuset.cpus) go to a private copy
 *    below RECORDS, and later reads come back from there;
 *  - mbind() to a node that is not there succeeds and leaves a line in RECORDS/mbind.log;
 *  - with NUMA_SHIM_CPUS, sched_setaffinity() to CPUs that are not there succeeds and leaves a line in
 *    RECORDS/affinity.log. Pins to real CPUs stay real;
 *  - with NUMA_SHIM_VPMU, CPUs are modelled and none is pinned to: see modelled_cpus.h.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "modelled_cpus.h"

#define RECORDS "/run/numa-shim"
#define CGROUPS "/sys/fs/cgroup/"

static int ends_with(const char *text, const char *end)
{
    size_t length = strlen(text), end_length = strlen(end);
    return length >= end_length && !strcmp(text + length - end_length, end);
}

static int is_recorded(const char *path)
{
    if (!path || strncmp(path, CGROUPS, strlen(CGROUPS)))
        return 0;
    bool has_cpus_of_its_own = getenv("NUMA_SHIM_CPUS") || modelled_is_on();
    return ends_with(path, "/cpuset.mems") || (has_cpus_of_its_own && ends_with(path, "/cpuset.cpus"));
}

/* The path to open instead: the private copy when writing, or when reading something written before. */
static const char *redirect(const char *path, int flags, char *copy, size_t size)
{
    struct stat exists;

    if (!is_recorded(path))
        return path;
    snprintf(copy, size, RECORDS "/%s", path + strlen(CGROUPS));
    for (char *c = copy + strlen(RECORDS) + 1; *c; c++)
        if (*c == '/')
            *c = '!';
    if ((flags & O_ACCMODE) == O_RDONLY && stat(copy, &exists))
        return path;
    return copy;
}

#define DEFINE_OPEN(name)                                                          \
    int name(const char *path, int flags, ...)                                     \
    {                                                                              \
        static int (*real)(const char *, int, ...);                                \
        char copy[4096];                                                           \
        mode_t mode = 0;                                                           \
        if (!real)                                                                 \
            real = dlsym(RTLD_NEXT, #name);                                        \
        if (flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE) {                 \
            va_list list;                                                          \
            va_start(list, flags);                                                 \
            mode = va_arg(list, int);                                              \
            va_end(list);                                                          \
        }                                                                          \
        int answer = modelled_open(path, flags);                                   \
        if (answer >= 0)                                                           \
            return answer;                                                         \
        const char *target = redirect(path, flags, copy, sizeof copy);             \
        if (target == path)                                                        \
            return real(path, flags, mode);                                        \
        return real(target, flags | ((flags & O_ACCMODE) ? O_CREAT : 0), 0644);    \
    }
DEFINE_OPEN(open)
DEFINE_OPEN(open64)

/* What fortified callers reach instead of open(). */
int __open_2(const char *path, int flags) { return open(path, flags); }
int __open64_2(const char *path, int flags) { return open64(path, flags); }

long mbind(void *start, unsigned long length, int mode, const unsigned long *nodes, unsigned long max_node,
           unsigned flags)
{
    static long (*real)(void *, unsigned long, int, const unsigned long *, unsigned long, unsigned);
    if (!real)
        real = dlsym(RTLD_NEXT, "mbind");
    long result = real(start, length, mode, nodes, max_node, flags);
    if (!result || errno != EINVAL)
        return result;
    FILE *log = fopen(RECORDS "/mbind.log", "a");
    if (log) {
        fprintf(log, "pid=%d bytes=%lu mode=%d nodes=%lx\n", getpid(), length, mode, nodes ? *nodes : 0);
        fclose(log);
    }
    return 0;
}

int sched_setaffinity(pid_t pid, size_t size, const cpu_set_t *cpus)
{
    static int (*real)(pid_t, size_t, const cpu_set_t *);
    if (modelled_is_on())
        return modelled_set_affinity(pid, size, cpus);
    if (!real)
        real = dlsym(RTLD_NEXT, "sched_setaffinity");
    int result = real(pid, size, cpus);
    if (!result || errno != EINVAL || !getenv("NUMA_SHIM_CPUS"))
        return result;
    FILE *log = fopen(RECORDS "/affinity.log", "a");
    if (log) {
        fprintf(log, "pid=%d cpus=%lx\n", pid, *(const unsigned long *)cpus);
        fclose(log);
    }
    return 0;
}

int sched_getaffinity(pid_t pid, size_t size, cpu_set_t *cpus)
{
    static int (*real)(pid_t, size_t, cpu_set_t *);
    if (modelled_is_on())
        return modelled_get_affinity(pid, size, cpus);
    if (!real)
        real = dlsym(RTLD_NEXT, "sched_getaffinity");
    return real(pid, size, cpus);
}
