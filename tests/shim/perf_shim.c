// SPDX-License-Identifier: Apache-2.0
/*
 * LD_PRELOAD: answers perf_event_open of hardware events from a table that a test writes, so that the
 * perf and libvirt counter sources can be tested on hosts without a PMU. Everything else goes to the
 * kernel. The table is the file PERF_SHIM_TABLE; its layout is repeated in tests/perf_shim.py.
 *
 * Kept from the kernel's behaviour, since our code relies on it: counts begin at zero when enabled, a
 * group is enabled by its leader, read_format is obeyed, a thread that does not exist is ESRCH, an
 * event with exclude_guest counts nothing of a guest, and descriptors are real (so EMFILE is, too).
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { CYCLES, INSTRUCTIONS, REFERENCES, MISSES, REMOTE_MISSES, EVENTS, NO_SUCH_EVENT, NOT_OURS };
enum { MAX_FDS = 16384, MAX_GROUP = 8 };

struct thread {
    int32_t tid;
    int32_t open_errno;
    uint64_t enabled_ns;
    uint64_t running_ns;
    uint64_t counts[EVENTS];
};

struct table {
    int32_t thread_count;
    int32_t open_errno; /* of every hardware event, as on a host without PMU */
    int32_t remote_errno; /* of REMOTE_MISSES alone, as on many CPUs */
    int32_t reserved;
    struct thread threads[];
};

struct event {
    int is_open, is_enabled, kind, tid, is_blind;
    uint64_t read_format, base_count, base_enabled_ns, base_running_ns;
    int group_size, group[MAX_GROUP]; /* a leader's members, itself first */
};

static const struct thread nobody;
static struct event events[MAX_FDS];

static struct table *the_table(void) {
    static struct table *table;
    if (table)
        return table;
    const char *path = getenv("PERF_SHIM_TABLE");
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0)
        return NULL;
    void *map = mmap(NULL, lseek(fd, 0, SEEK_END), PROT_READ, MAP_SHARED, fd, 0);
    syscall(SYS_close, fd);
    return table = map == MAP_FAILED ? NULL : map;
}

static const struct thread *find_thread(int tid) {
    const struct table *table = the_table();
    for (int i = 0; i < table->thread_count; i++)
        if (table->threads[i].tid == tid)
            return &table->threads[i];
    return &nobody;
}

/* Xeons from the Skylake generation on, and Neoverse with an LL_CACHE_RD that duplicates the L2's. */
static int kind_of_raw(uint64_t config) {
    switch (config) {
    case 0x4f2e: return REFERENCES;
    case 0x412e: return MISSES;
    case 0x02d3: return REMOTE_MISSES;
    case 0x36: case 0x50: return REFERENCES;
    case 0x37: return MISSES;
    }
    return NO_SUCH_EVENT;
}

static int kind_of(const struct perf_event_attr *attr) {
    if (attr->type == PERF_TYPE_RAW)
        return kind_of_raw(attr->config);
    if (attr->type != PERF_TYPE_HARDWARE)
        return NOT_OURS;
    switch (attr->config) {
    case PERF_COUNT_HW_CPU_CYCLES: return CYCLES;
    case PERF_COUNT_HW_INSTRUCTIONS: return INSTRUCTIONS;
    case PERF_COUNT_HW_CACHE_REFERENCES: return REFERENCES;
    case PERF_COUNT_HW_CACHE_MISSES: return MISSES;
    }
    return NOT_OURS;
}

static int refusal(int kind, int tid) {
    const struct table *table = the_table();
    const struct thread *thread = find_thread(tid);
    char path[64];
    if (table->open_errno)
        return table->open_errno;
    if (kind == NO_SUCH_EVENT)
        return ENOENT;
    if (kind == REMOTE_MISSES && table->remote_errno)
        return table->remote_errno;
    snprintf(path, sizeof path, "/proc/%d", tid);
    if (thread == &nobody && access(path, F_OK) != 0)
        return ESRCH;
    return thread->open_errno;
}

static void enable(struct event *event) {
    const struct thread *thread = find_thread(event->tid);
    event->is_enabled = 1;
    event->base_count = thread->counts[event->kind];
    event->base_enabled_ns = thread->enabled_ns;
    event->base_running_ns = thread->running_ns;
}

static uint64_t count(const struct event *event) {
    if (!event->is_enabled || event->is_blind)
        return 0;
    return find_thread(event->tid)->counts[event->kind] - event->base_count;
}

static long open_event(const struct perf_event_attr *attr, int kind, int tid, int group_fd) {
    int error = refusal(kind, tid);
    if (error) {
        errno = error;
        return -1;
    }
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    if (fd >= MAX_FDS || (group_fd >= 0 && events[group_fd].group_size == MAX_GROUP)) {
        syscall(SYS_close, fd);
        errno = EINVAL;
        return -1;
    }
    struct event *event = &events[fd];
    memset(event, 0, sizeof *event);
    event->is_open = 1;
    event->kind = kind;
    event->tid = tid;
    event->is_blind = attr->exclude_guest;
    event->read_format = attr->read_format;
    struct event *leader = group_fd >= 0 ? &events[group_fd] : event;
    leader->group[leader->group_size++] = fd;
    if (!attr->disabled && (leader == event || leader->is_enabled))
        enable(event);
    return fd;
}

static ssize_t read_event(const struct event *event, void *buffer, size_t size) {
    const struct thread *thread = find_thread(event->tid);
    uint64_t words[3 + MAX_GROUP];
    int n = 0;
    if (event->read_format & PERF_FORMAT_GROUP)
        words[n++] = event->group_size;
    else
        words[n++] = count(event);
    if (event->read_format & PERF_FORMAT_TOTAL_TIME_ENABLED)
        words[n++] = thread->enabled_ns - event->base_enabled_ns;
    if (event->read_format & PERF_FORMAT_TOTAL_TIME_RUNNING)
        words[n++] = thread->running_ns - event->base_running_ns;
    if (event->read_format & PERF_FORMAT_GROUP)
        for (int i = 0; i < event->group_size; i++)
            words[n++] = count(&events[event->group[i]]);
    if (size < n * sizeof *words) {
        errno = ENOSPC;
        return -1;
    }
    memcpy(buffer, words, n * sizeof *words);
    return n * sizeof *words;
}

static struct event *event_of(int fd) {
    return fd >= 0 && fd < MAX_FDS && events[fd].is_open ? &events[fd] : NULL;
}

long syscall(long number, ...) {
    static long (*next)(long, ...);
    long a[6];
    va_list arguments;
    if (!next)
        next = dlsym(RTLD_NEXT, "syscall");
    va_start(arguments, number);
    for (int i = 0; i < 6; i++)
        a[i] = va_arg(arguments, long);
    va_end(arguments);
    if (number == SYS_perf_event_open && the_table()) {
        const struct perf_event_attr *attr = (const void *)a[0];
        int tid = (int)a[1] ? (int)a[1] : gettid();
        if (kind_of(attr) != NOT_OURS)
            return open_event(attr, kind_of(attr), tid, (int)a[3]);
    }
    return next(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

int ioctl(int fd, unsigned long request, ...) {
    static int (*next)(int, unsigned long, ...);
    struct event *event = event_of(fd);
    va_list arguments;
    if (!next)
        next = dlsym(RTLD_NEXT, "ioctl");
    va_start(arguments, request);
    void *argument = va_arg(arguments, void *);
    va_end(arguments);
    if (!event)
        return next(fd, request, argument);
    for (int i = 0; i < event->group_size; i++) {
        if (request == PERF_EVENT_IOC_ENABLE)
            enable(&events[event->group[i]]);
        else if (request == PERF_EVENT_IOC_DISABLE)
            events[event->group[i]].is_enabled = 0;
    }
    return 0;
}

ssize_t read(int fd, void *buffer, size_t size) {
    static ssize_t (*next)(int, void *, size_t);
    if (!next)
        next = dlsym(RTLD_NEXT, "read");
    return event_of(fd) ? read_event(event_of(fd), buffer, size) : next(fd, buffer, size);
}

int close(int fd) {
    static int (*next)(int);
    if (!next)
        next = dlsym(RTLD_NEXT, "close");
    if (event_of(fd))
        events[fd].is_open = 0;
    return next(fd);
}
