// SPDX-License-Identifier: Apache-2.0
#include "setup.h"

#include <string.h>

#include "cpumap.h"
#include "guest_name.h"
#include "nodemap.h"
#include "siblings.h"

#define NS_PER_S 1000000000ull

/* Of the modelled host. */
struct topology {
    struct cpumap cpus;
    struct nodemap nodes;
    struct siblings siblings;
};

static bool read_topology(const struct config *config, struct topology *topology, struct problem *problem)
{
    struct cpumap *map = &topology->cpus;
    bool is_read = !strcmp(config->cpumap, "auto") ? cpumap_read(map, CPUMAP_SYSFS, problem)
                                                   : cpumap_parse(map, config->cpumap, problem);
    bool is_whole = is_read && (config->cpus ? cpumap_check_modelled(map, config->cpus, problem)
                                             : cpumap_check_affinity(map, problem));
    return is_whole && nodemap_parse(&topology->nodes, config->nodemap, map->socket_count, problem) &&
           siblings_read(&topology->siblings, config->siblings, SIBLINGS_SYSFS, problem);
}

static void bind_topology(struct vm *vm, const struct topology *topology)
{
    for (uint32_t cpu = 0; cpu < VPMU_MAX_CPUS; cpu++) {
        uint8_t socket = topology->cpus.socket_of_cpu[cpu];
        vm->model.socket_of_cpu[cpu] = socket == CPUMAP_NONE ? 0 : socket;
    }
    memcpy(vm->model.node_of_socket, topology->nodes.node_of_socket, sizeof vm->model.node_of_socket);
    vm->model.node_count = topology->nodes.node_count;
}

static bool attach_llcs(struct setup *setup, uint32_t socket_count, struct problem *problem)
{
    const struct model_config *config = &setup->config.model;
    const struct vpmu_llc_header shape = {
        .magic = VPMU_LLC_MAGIC,
        .version = VPMU_VERSION,
        .header_bytes = sizeof shape,
        .sets = model_llc_sets(config),
        .ways = config->llc_ways,
        .sample = config->sample,
    };
    for (uint32_t socket = 0; socket < socket_count; socket++) {
        struct cache *llc = &setup->vm.model.llc[socket];
        *llc = (struct cache){.sets = shape.sets, .ways = shape.ways};
        if (!llc_file_attach(&setup->directory, socket, &shape, &llc->lines, problem))
            return false;
    }
    return true;
}

/* Bandwidths are told in modelled cycles, and mhz of them pass in a microsecond of every paced guest. */
static bool attach_controllers(struct setup *setup, uint32_t node_count, struct problem *problem)
{
    const struct config *config = &setup->config;
    uint64_t lines_per_s = (uint64_t)config->bandwidth * config->mhz * 1000;
    uint64_t written_per_s = (uint64_t)config->write_bandwidth * config->mhz * 1000;
    struct model *model = &setup->vm.model;
    model->write_line_cycles = config->write_bandwidth ? 1 + 999 / config->write_bandwidth : 0;
    for (uint32_t node = 0; lines_per_s && node < node_count; node++)
        if (!mc_file_attach(&setup->directory, node, lines_per_s, written_per_s, &model->controller[node], problem))
            return false;
    return true;
}

static bool attach_cpus(struct setup *setup, const struct siblings *siblings, uint32_t vcpu_count,
                        struct problem *problem)
{
    if (!setup->config.cpus)
        return true;
    if (!cpus_file_attach(&setup->directory, setup->config.cpus, &setup->cpus, problem))
        return false;
    for (uint32_t cpu = 0; cpu < setup->config.cpus; cpu++) {
        uint32_t other = siblings->of_cpu[cpu];
        if (other && other <= setup->config.cpus)
            cpus_set_siblings(setup->cpus, cpu, other - 1);
    }
    cpus_join(setup->cpus, setup->vm.model.vm_id, vcpu_count);
    return true;
}

static bool make_vm_file(struct setup *setup, uint32_t vcpu_count, uint32_t socket_count, struct problem *problem)
{
    const struct config *config = &setup->config;
    if (!vm_file_create(&setup->directory, config->name, vcpu_count, &setup->file, problem))
        return false;
    struct vpmu_vm_header *header = setup->file.header;
    header->vm_id = setup->vm.model.vm_id;
    header->sample = config->model.sample;
    header->socket_count = socket_count;
    header->node_count = setup->vm.model.node_count;
    memcpy(header->node_of_socket, setup->vm.model.node_of_socket, sizeof header->node_of_socket);
    header->has_shadow = config->model.shadow;
    header->mhz = config->mhz;
    header->cpi_x100 = config->cpi_x100;
    setup->vm.header = header;
    setup->vm.model.header = header;
    return true;
}

static bool init_vm(struct setup *setup, uint32_t vcpu_count, uint64_t now_ns, struct problem *problem)
{
    struct vm *vm = &setup->vm;
    vm->vcpu_count = vcpu_count;
    vm->boot.started_ns = now_ns;
    vm->boot_limits.deadline_ns = setup->config.pace_after_s * NS_PER_S;
    vm->boot_limits.user_instructions = setup->config.pace_after_user_minstr * 1000000ull;
    bool is_ready = model_init_shadow(&vm->model);
    for (uint32_t i = 0; is_ready && i < vcpu_count; i++)
        is_ready = vm_init_vcpu(vm, i, &setup->file.slots[i], now_ns);
    for (uint32_t i = 0; is_ready && setup->cpus && i < vcpu_count; i++)
        vm->vcpus[i].seat = cpus_seat(setup->cpus, vm->model.vm_id, i, now_ns);
    if (!is_ready) {
        vm_file_close(&setup->directory, setup->config.name, &setup->file);
        return problem_set(problem, "out of memory for the caches of %u vCPUs", vcpu_count);
    }
    vm_file_complete(&setup->file);
    error_file_remove(&setup->directory, setup->config.name);
    return true;
}

static bool use_directory(struct setup *setup, const struct topology *topology, uint32_t vcpu_count, uint64_t now_ns,
                          struct problem *problem)
{
    uint32_t socket_count = topology->cpus.socket_count;
    bool is_done = directory_open(&setup->directory, setup->config.dir, problem) &&
                   directory_claim_vm_id(&setup->directory, &setup->vm.model.vm_id, problem) &&
                   attach_llcs(setup, socket_count, problem) &&
                   attach_controllers(setup, setup->vm.model.node_count, problem) &&
                   attach_cpus(setup, &topology->siblings, vcpu_count, problem) &&
                   make_vm_file(setup, vcpu_count, socket_count, problem) &&
                   init_vm(setup, vcpu_count, now_ns, problem);
    if (is_done)
        directory_unlock(&setup->directory);
    else
        directory_abandon(&setup->directory);
    return is_done;
}

bool setup_vm(struct setup *setup, uint32_t vcpu_count, int (*current_cpu)(void), uint64_t now_ns,
              struct problem *problem)
{
    struct topology topology;
    if (!config_check(&setup->config, problem) || !guest_name_check(setup->config.name, problem))
        return false;
    if (vcpu_count < 1 || vcpu_count > VPMU_MAX_VCPUS)
        return problem_set(problem, "the VM may have %u vCPUs, vpmu models at most %u: lower its vCPU maximum",
                           vcpu_count, VPMU_MAX_VCPUS);
    if (!read_topology(&setup->config, &topology, problem))
        return false;
    setup->vm.model.config = setup->config.model;
    setup->vm.model.current_cpu = current_cpu;
    bind_topology(&setup->vm, &topology);
    setup->vm.sibling_percent = setup->config.sibling_percent;
    return use_directory(setup, &topology, vcpu_count, now_ns, problem);
}

void setup_close(struct setup *setup)
{
    if (setup->cpus)
        cpus_leave(setup->cpus, setup->vm.model.vm_id);
    vm_file_close(&setup->directory, setup->config.name, &setup->file);
}
