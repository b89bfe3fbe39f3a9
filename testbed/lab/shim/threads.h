// SPDX-License-Identifier: Apache-2.0
/* Who a thread is, whatever pid namespace asks. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct thread {
    pid_t tid;    // in its own pid namespace
    pid_t leader; // of its process, in the reader's
    bool is_in_own_namespace;
    unsigned long started_ticks;
};

// From /proc/TID of the reader; 0 is the caller. False: there is none.
bool thread_read(pid_t tid, struct thread *thread);

// The whole of a small file, past the shim; how many bytes, -1 if it cannot be read.
ssize_t read_past_shim(const char *path, char *text, size_t size);
