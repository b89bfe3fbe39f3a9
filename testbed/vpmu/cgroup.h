// SPDX-License-Identifier: Apache-2.0
/* CPU weight and quota of a thread's cgroups, version 1 (cpu.shares, cpu.cfs_*) or 2 (cpu.weight, cpu.max). */
#ifndef VPMU_CGROUP_H
#define VPMU_CGROUP_H

#include <stdbool.h>
#include <stddef.h>

#include "cpus.h"

#define CGROUP_MOUNT "/sys/fs/cgroup"

/*
 * Fills weights, quotas and the VM's group. `membership`: the text of /proc/T/cgroup. A group named `vcpu…`, which libvirt makes for each
 * vCPU, is the vCPU's own; all above are the VM's: weights multiply, and the tightest quota is that of all vCPUs
 * together. Of what cannot be read, the claim stays as it is.
 */
void cgroup_read(struct cpus_claim *claim, const char *mount, const char *membership);

#endif
