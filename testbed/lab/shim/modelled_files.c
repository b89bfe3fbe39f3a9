// SPDX-License-Identifier: Apache-2.0
// What the kernel's files say of a vCPU on modelled CPUs. Reads the table with pread, never mapped: it may be replaced
// or cut short at any time, and the reader may be libvirtd.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../../vpmu/vpmu_layout.h"
#include "modelled_cpus.h"
#include "threads.h"

#define CGROUPS "/sys/fs/cgroup/"

enum { PATH_BYTES = 1024, TEXT_BYTES = 4096, STAT_UTIME = 12, STAT_PROCESSOR = 37 };

// What one file tells of: a vCPU, or all vCPUs of a group.
struct cpu_time {
    unsigned long granted_ns, delay_ns, throttled_ns; // throttled by whatever quota
    unsigned long slices;
    unsigned long periods, throttled_periods, quota_throttled_ns; // of the group's own quota
    int cpu;
};

struct table {
    int fd;
    const struct vpmu_cpus *head; // no more of it is there than the part before the CPUs
    uint64_t bytes[offsetof(struct vpmu_cpus, cpu) / sizeof(uint64_t)];
};

static bool table_open(struct table *table)
{
    char path[PATH_BYTES];
    table->head = (const struct vpmu_cpus *)table->bytes;
    snprintf(path, sizeof path, "%s/cpus", getenv("NUMA_SHIM_VPMU"));
    table->fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (table->fd < 0)
        return false;
    if (pread(table->fd, table->bytes, sizeof table->bytes, 0) == (ssize_t)sizeof table->bytes &&
        table->head->magic == VPMU_CPUS_MAGIC && table->head->version == VPMU_VERSION)
        return true;
    close(table->fd);
    return false;
}

static bool read_entry(const struct table *table, unsigned int vm, unsigned int index, struct vpmu_cpus_entry *entry)
{
    off_t offset = (off_t)(offsetof(struct vpmu_cpus, entry) + (vm * VPMU_MAX_VCPUS + index) * sizeof *entry);
    return index < table->head->vcpus_of_vm[vm] && pread(table->fd, entry, sizeof *entry, offset) == sizeof *entry;
}

static void add_entry(struct cpu_time *time, const struct vpmu_cpus_entry *entry)
{
    time->granted_ns += entry->granted_ns;
    time->delay_ns += entry->delay_ns;
    time->throttled_ns += entry->quota.throttled_ns + entry->vm_throttled_ns;
    time->slices += entry->slices;
    time->cpu = entry->cpu;
}

static void add_quota(struct cpu_time *time, const struct vpmu_quota *quota)
{
    time->periods += quota->periods;
    time->throttled_periods += quota->throttled_periods;
    time->quota_throttled_ns += quota->throttled_ns;
}

static bool of_thread(const struct table *table, pid_t tid, struct cpu_time *time)
{
    struct thread thread;
    struct vpmu_cpus_entry entry;
    if (!thread_read(tid, &thread))
        return false;
    for (unsigned int vm = 1; vm <= VPMU_MAX_VM_ID; vm++)
        for (unsigned int index = 0; index < VPMU_MAX_VCPUS && read_entry(table, vm, index, &entry); index++) {
            if (entry.tid != thread.tid || entry.thread_started_ticks != thread.started_ticks)
                continue;
            *time = (struct cpu_time){0};
            add_entry(time, &entry);
            add_quota(time, &entry.quota);
            return true;
        }
    return false;
}

// All VMs whose quota this group has.
static bool of_group(const struct table *table, const char *group, struct cpu_time *time)
{
    struct vpmu_cpus_vm vm;
    struct vpmu_cpus_entry entry;
    bool is_found = false;
    *time = (struct cpu_time){0};
    for (unsigned int id = 1; id <= VPMU_MAX_VM_ID; id++) {
        off_t offset = (off_t)(offsetof(struct vpmu_cpus, vm) + id * sizeof vm);
        if (!table->head->vcpus_of_vm[id] || pread(table->fd, &vm, sizeof vm, offset) != sizeof vm ||
            strncmp(vm.group, group, sizeof vm.group))
            continue;
        for (unsigned int index = 0; index < VPMU_MAX_VCPUS && read_entry(table, id, index, &entry); index++)
            add_entry(time, &entry);
        add_quota(time, &vm.quota);
        is_found = true;
    }
    return is_found;
}

static int open_text(const char *text)
{
    int fd = memfd_create("modelled-cpus", MFD_CLOEXEC);
    if (fd < 0 || (write(fd, text, strlen(text)) == (ssize_t)strlen(text) && !lseek(fd, 0, SEEK_SET)))
        return fd;
    close(fd);
    return -1;
}

// ---- /proc ----

// The kernel's run delay has the throttled time in it.
static int answer_schedstat(const struct cpu_time *time)
{
    char text[128];
    snprintf(text, sizeof text, "%lu %lu %lu\n", time->granted_ns, time->delay_ns + time->throttled_ns, time->slices);
    return open_text(text);
}

// Its fields in place of the kernel's, all of it as user time.
static int answer_stat(const struct cpu_time *time, const char *path)
{
    char real[TEXT_BYTES], text[2 * TEXT_BYTES], *save;
    if (read_past_shim(path, real, sizeof real) <= 0)
        return -1;
    char *rest = strrchr(real, ')');
    if (!rest)
        return -1;
    size_t length = (size_t)snprintf(text, sizeof text, "%.*s", (int)(rest + 1 - real), real);
    int number = 1;
    for (char *field = strtok_r(rest + 1, " \n", &save); field; field = strtok_r(NULL, " \n", &save), number++) {
        unsigned long ticks = time->granted_ns / (1000000000ul / (unsigned long)sysconf(_SC_CLK_TCK));
        if (number == STAT_UTIME)
            length += (size_t)snprintf(text + length, sizeof text - length, " %lu", ticks);
        else if (number == STAT_UTIME + 1)
            length += (size_t)snprintf(text + length, sizeof text - length, " 0");
        else if (number == STAT_PROCESSOR)
            length += (size_t)snprintf(text + length, sizeof text - length, " %d", time->cpu < 0 ? 0 : time->cpu);
        else
            length += (size_t)snprintf(text + length, sizeof text - length, " %s", field);
    }
    snprintf(text + length, sizeof text - length, "\n");
    return open_text(text);
}

// `/proc/P/task/T/NAME` or `/proc/T/NAME`: NAME, and T.
static const char *parse_proc(const char *path, pid_t *tid)
{
    int used = 0;
    if (sscanf(path, "/proc/%*d/task/%d/%n", tid, &used) == 1 && used)
        return path + used;
    used = 0;
    return sscanf(path, "/proc/%d/%n", tid, &used) == 1 && used ? path + used : NULL;
}

static int open_proc(const struct table *table, const char *path)
{
    struct cpu_time time;
    pid_t tid;
    const char *name = parse_proc(path, &tid);
    if (!name || strchr(name, '/') || !of_thread(table, tid, &time))
        return -1;
    return !strcmp(name, "stat") ? answer_stat(&time, path) : answer_schedstat(&time);
}

// ---- cgroups ----

static int answer_cpu_stat(const struct cpu_time *time, bool is_unified)
{
    char text[512];
    int length = 0;
    if (is_unified)
        length = snprintf(text, sizeof text, "usage_usec %lu\nuser_usec %lu\nsystem_usec 0\n", time->granted_ns / 1000,
                          time->granted_ns / 1000);
    snprintf(text + length, sizeof text - (size_t)length, "nr_periods %lu\nnr_throttled %lu\nthrottled_%s %lu\n",
             time->periods, time->throttled_periods, is_unified ? "usec" : "time",
             is_unified ? time->quota_throttled_ns / 1000 : time->quota_throttled_ns);
    return open_text(text);
}

static int answer_usage(const struct cpu_time *time)
{
    char text[64];
    snprintf(text, sizeof text, "%lu\n", time->granted_ns);
    return open_text(text);
}

// The thread in libvirt's group of one vCPU.
static bool of_vcpu_group(const struct table *table, const char *folder, bool is_unified, struct cpu_time *time)
{
    char path[PATH_BYTES + 32], tids[TEXT_BYTES];
    snprintf(path, sizeof path, "%s/%s", folder, is_unified ? "cgroup.threads" : "tasks");
    return read_past_shim(path, tids, sizeof tids) > 0 && of_thread(table, atoi(tids), time);
}

static int open_cgroup(const struct table *table, const char *path)
{
    char real[TEXT_BYTES], folder[PATH_BYTES];
    struct cpu_time time;
    const char *name = strrchr(path, '/') + 1;
    bool is_usage = !strcmp(name, "cpuacct.usage");
    if (read_past_shim(path, real, sizeof real) < 0)
        return -1;
    bool is_unified = !strncmp(real, "usage_usec", strlen("usage_usec"));
    snprintf(folder, sizeof folder, "%.*s", (int)(name - 1 - path), path);
    // Of version 1 the first folder is the controller's.
    const char *group = is_unified ? folder + strlen(CGROUPS) - 1 : strchr(folder + strlen(CGROUPS), '/');
    const char *last = strrchr(folder, '/') + 1;
    bool is_found = !strncmp(last, "vcpu", 4) ? of_vcpu_group(table, folder, is_unified, &time)
                                              : group && of_group(table, group, &time);
    if (!is_found)
        return -1;
    return is_usage ? answer_usage(&time) : answer_cpu_stat(&time, is_unified);
}

// Of who is not on the modelled CPUs yet, or never will be: who keeps the file open would else keep the kernel's.
static int open_copy(const char *path)
{
    char real[TEXT_BYTES];
    return read_past_shim(path, real, sizeof real) < 0 ? -1 : open_text(real);
}

// Most of what a process opens is none of ours, and costs it nothing.
static bool is_answered(const char *path, const char *below, const char *name, const char *other_name)
{
    const char *last = strrchr(path, '/');
    return !strncmp(path, below, strlen(below)) && (!strcmp(last + 1, name) || !strcmp(last + 1, other_name));
}

int modelled_open(const char *path, int flags)
{
    struct table table;
    if (!modelled_is_on() || !path || flags & (O_ACCMODE | O_DIRECTORY))
        return -1;
    bool is_proc = is_answered(path, "/proc/", "schedstat", "stat");
    if (!is_proc && !is_answered(path, CGROUPS, "cpu.stat", "cpuacct.usage"))
        return -1;
    int fd = -1;
    if (table_open(&table)) {
        fd = is_proc ? open_proc(&table, path) : open_cgroup(&table, path);
        close(table.fd);
    }
    return fd < 0 ? open_copy(path) : fd;
}
