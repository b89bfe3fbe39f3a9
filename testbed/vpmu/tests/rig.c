// SPDX-License-Identifier: Apache-2.0
#include "rig.h"

#include <stdlib.h>
#include <string.h>

#include "controller.h"

static int running_cpu;

static int current_cpu(void)
{
    return running_cpu;
}

void rig_host_init(struct rig_host *host)
{
    struct config standard;
    config_set_defaults(&standard);
    memset(host, 0, sizeof *host);
    host->config = standard.model;
    host->config.sample = 1;
    for (int i = 0; i < 2; i++) {
        host->llc[i] = (struct cache){.sets = model_llc_sets(&host->config), .ways = host->config.llc_ways};
        host->llc[i].lines = calloc((size_t)host->llc[i].sets * host->llc[i].ways, sizeof(uint64_t));
        host->controllers[i].latency_x256 = CONTROLLER_LATENCY_ONE;
    }
}

void rig_host_free(struct rig_host *host)
{
    free(host->llc[0].lines);
    free(host->llc[1].lines);
}

void rig_vm_init(struct rig_vm *vm, const struct rig_host *host, uint32_t vm_id)
{
    memset(vm, 0, sizeof *vm);
    memset(vm->header.chunk_node, VPMU_NODE_UNKNOWN, sizeof vm->header.chunk_node);
    vm->header.socket_count = 2;
    vm->model = (struct model){.config = host->config, .header = &vm->header, .current_cpu = current_cpu};
    vm->model.vm_id = vm_id;
    vm->model.write_line_cycles = 25;
    vm->model.node_count = host->is_one_node ? 1 : 2;
    for (int i = 0; i < 2; i++) {
        vm->model.llc[i] = host->llc[i];
        vm->model.socket_of_cpu[i] = (uint8_t)i;
        vm->model.node_of_socket[i] = (uint8_t)(host->is_one_node ? 0 : i);
        if (host->has_bandwidth)
            vm->model.controller[i] = (struct vpmu_mc *)&host->controllers[i];
    }
    if (!model_init_shadow(&vm->model) || !model_init_vcpu(&vm->model, &vm->vcpu))
        abort();
}

void rig_vm_free(struct rig_vm *vm)
{
    free(vm->model.shadow[0].lines);
    free(vm->model.shadow[1].lines);
    free(vm->vcpu.l1_lines);
    free(vm->vcpu.l2.lines);
}

static void access_at(struct rig_vm *vm, uint64_t address, bool is_write)
{
    running_cpu = vm->cpu;
    enum model_l1 l1 = model_l1(&vm->vcpu, address, is_write);
    if (l1 == MODEL_L1_MISS)
        model_l1_miss(&vm->model, &vm->vcpu, address, address, is_write);
    if (l1 == MODEL_L1_FIRST_WRITE)
        model_first_write(&vm->model, &vm->vcpu, address);
}

void rig_access(struct rig_vm *vm, uint64_t address)
{
    access_at(vm, address, false);
}

void rig_write(struct rig_vm *vm, uint64_t address)
{
    access_at(vm, address, true);
}

void rig_chase(struct rig_vm *vm, uint64_t base, uint64_t bytes)
{
    uint64_t lines = bytes / 64, step = 1009; /* a prime that divides no line count used here */
    for (uint64_t i = 0, line = 0; i < lines; i++, line = (line + step) % lines)
        rig_access(vm, base + line * 64);
}

void rig_stream(struct rig_vm *vm, uint64_t base, uint64_t bytes)
{
    for (uint64_t offset = 0; offset < bytes; offset += 64)
        rig_access(vm, base + offset);
}

void rig_reset_counters(struct rig_vm *vm)
{
    struct model_vcpu *vcpu = &vm->vcpu;
    vcpu->l1_misses = vcpu->llc_references = vcpu->llc_misses_local = vcpu->llc_misses_remote = 0;
    vcpu->shadow_llc_misses = vcpu->stall_cycles = vcpu->write_backs = 0;
}

uint64_t rig_misses(const struct rig_vm *vm)
{
    return vm->vcpu.llc_misses_local + vm->vcpu.llc_misses_remote;
}

double rig_memory_factor(const struct rig_vm *vm)
{
    return (double)rig_misses(vm) / (double)vm->vcpu.llc_references;
}

double rig_shadow_memory_factor(const struct rig_vm *vm)
{
    return (double)vm->vcpu.shadow_llc_misses / (double)vm->vcpu.llc_references;
}
