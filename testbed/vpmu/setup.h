// SPDX-License-Identifier: Apache-2.0
/* From a configuration to a VM that is ready to run: topology, shared files, model. */
#ifndef VPMU_SETUP_H
#define VPMU_SETUP_H

#include "config.h"
#include "directory.h"
#include "vm.h"

struct setup {
    struct config config;
    struct directory directory;
    struct vm_file file;
    struct vm vm;
    struct vpmu_cpus *cpus; /* NULL: not modelled */
};

/* `config` and its `name` stand already. On refusal nothing is left behind in the directory but what others use. */
bool setup_vm(struct setup *setup, uint32_t vcpu_count, int (*current_cpu)(void), uint64_t now_ns,
              struct problem *problem);

/* At the VM's end. Frees nothing: vCPU threads may still run. */
void setup_close(struct setup *setup);

#endif
