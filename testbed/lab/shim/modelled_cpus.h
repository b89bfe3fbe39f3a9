// SPDX-License-Identifier: Apache-2.0
/*
 * Modelled CPUs as a process sees them that runs under the shim: what it asks of the kernel about CPUs is answered
 * from the folder of the software PMU (testbed/vpmu), so that one reader of the kernel's files reads either.
 *
 * With NUMA_SHIM_VPMU=DIR and NUMA_SHIM_MODELLED_CPUS=N
 *  - sched_setaffinity() writes DIR/affinity/TID, "STARTED LIST", and never asks the kernel: threads float over the real
 *    CPUs. TID is the thread's in its own pid namespace, STARTED its start time as in /proc/TID/stat, so that neither
 *    another namespace nor a later thread with that number is taken for it. sched_getaffinity() reads it back;
 *  - of a vCPU on modelled CPUs, /proc/[P/task/]T/schedstat and stat (CPU time, last CPU), and of its cgroup or its
 *    VM's, cpu.stat and cpuacct.usage, say what the model granted. Each opening is one look, also at files of these
 *    names that tell of others: what is opened is a copy, on another file system than its folder.
 */
#pragma once

#include <sched.h>
#include <stdbool.h>
#include <sys/types.h>

bool modelled_is_on(void);

/* An open file with the answer, -1: ask the kernel. */
int modelled_open(const char *path, int flags);

/* As the system calls of that name. */
int modelled_set_affinity(pid_t tid, size_t size, const cpu_set_t *cpus);
int modelled_get_affinity(pid_t tid, size_t size, cpu_set_t *cpus);
