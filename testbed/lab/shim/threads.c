// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "threads.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { STAT_STARTTIME = 20 }; // counted after the parenthesised command, which may hold blanks

ssize_t read_past_shim(const char *path, char *text, size_t size)
{
    size_t length = 0;
    ssize_t got = 0;
    int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return -1;
    while (length < size - 1 && (got = read(fd, text + length, size - 1 - length)) > 0)
        length += (size_t)got;
    close(fd);
    text[length] = 0;
    return got < 0 ? -1 : (ssize_t)length;
}

static bool read_identity(const char *status, struct thread *thread)
{
    const char *leader = strstr(status, "\nTgid:"), *pids = strstr(status, "\nNSpid:");
    if (!leader || !pids)
        return false;
    thread->leader = atoi(leader + strlen("\nTgid:"));
    pids += strlen("\nNSpid:");
    for (thread->is_in_own_namespace = true;; thread->is_in_own_namespace = false) {
        char *end;
        thread->tid = (pid_t)strtol(pids, &end, 10);
        if (*end != '\t' && *end != ' ')
            return true;
        pids = end;
    }
}

bool thread_read(pid_t tid, struct thread *thread)
{
    char path[64], text[4096], *field;
    if (!tid)
        tid = (pid_t)syscall(SYS_gettid);
    snprintf(path, sizeof path, "/proc/%d/status", tid);
    if (read_past_shim(path, text, sizeof text) <= 0 || !read_identity(text, thread))
        return false;
    snprintf(path, sizeof path, "/proc/%d/stat", tid);
    if (read_past_shim(path, text, sizeof text) <= 0 || !(field = strrchr(text, ')')))
        return false;
    for (int i = 0; field && i < STAT_STARTTIME; i++)
        field = strchr(field + 1, ' ');
    thread->started_ticks = field ? strtoul(field, NULL, 10) : 0;
    return field != NULL;
}
