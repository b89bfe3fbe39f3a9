// SPDX-License-Identifier: Apache-2.0
#include "model.h"

#include <stdlib.h>
#include <string.h>

#include "controller.h"

/* Where a guest-physical line sits: its set (modulo the sets of each cache) and its tag. */
struct place {
    uint32_t l2_set;
    uint32_t llc_set;
    uint32_t tag;
};

uint32_t model_l2_sets(const struct model_config *config)
{
    return config->l2_kib * 1024 / (1u << LINE_SHIFT) / config->l2_ways;
}

uint32_t model_llc_sets(const struct model_config *config)
{
    return config->llc_kib * 1024 / (1u << LINE_SHIFT) / config->llc_ways;
}

bool model_init_vcpu(const struct model *model, struct model_vcpu *vcpu)
{
    uint32_t lines = model->config.l1_kib * 1024 >> LINE_SHIFT;
    uint32_t sets = model_l2_sets(&model->config);
    *vcpu = (struct model_vcpu){
        .l1_mask = lines - 1,
        .sample_mask = model->config.sample - 1,
        .l1_lines = malloc(lines * sizeof(uint64_t)),
        .l2 = {.sets = sets, .ways = model->config.l2_ways},
        .cpu = -1,
        .socket = -1,
    };
    vcpu->l2.tags = calloc((size_t)sets * model->config.l2_ways, sizeof(uint32_t));
    if (!vcpu->l1_lines || !vcpu->l2.tags)
        return false;
    model_flush_l1(vcpu);
    return true;
}

bool model_init_shadow(struct model *model)
{
    for (uint32_t i = 0; model->config.shadow && i < model->header->socket_count; i++) {
        struct cache *shadow = &model->shadow[i];
        *shadow = (struct cache){.sets = model_llc_sets(&model->config), .ways = model->config.llc_ways};
        shadow->tags = calloc((size_t)shadow->sets * shadow->ways, sizeof(uint32_t));
        if (!shadow->tags)
            return false;
    }
    return true;
}

void model_flush_l1(struct model_vcpu *vcpu)
{
    memset(vcpu->l1_lines, 0xff, (vcpu->l1_mask + 1) * sizeof(uint64_t));
}

/*
 * The line's number within its page is the low part of the set, so a tag needs only the page number: 24 bits, 64 GiB.
 * Pages go round the rest of the LLC's sets, beginning elsewhere for each VM: a buffer of neighbouring pages fills all
 * sets evenly, where a hash would overfill some by chance and let a fitting working set miss.
 */
static struct place place_of(const struct model *model, uint64_t paddr)
{
    uint32_t line_in_page = (paddr >> LINE_SHIFT) & (LINES_PER_PAGE - 1);
    uint32_t page = (paddr >> PAGE_SHIFT) & 0xffffff;
    return (struct place){
        .l2_set = line_in_page | page << 6,
        .llc_set = line_in_page | (page + 3 * model->vm_id) << 6,
        .tag = model->vm_id << 24 | page,
    };
}

static void see_cpu(const struct model *model, struct model_vcpu *vcpu)
{
    int cpu = model->current_cpu();
    if (cpu == vcpu->cpu && vcpu->socket >= 0)
        return;
    vcpu->cpu = cpu;
    vcpu->socket = model->socket_of_cpu[(uint32_t)cpu % VPMU_MAX_CPUS];
}

/* First touch: an unowned chunk becomes the toucher's node's. The map is shared with whoever moves memory, so a value
 * out of range counts as that node. */
static uint32_t node_of(struct model *model, uint64_t paddr, uint32_t toucher)
{
    uint8_t *owner = &model->header->chunk_node[(paddr >> VPMU_CHUNK_SHIFT) % VPMU_CHUNKS];
    uint8_t node = __atomic_load_n(owner, __ATOMIC_RELAXED);
    if (node == VPMU_NODE_UNKNOWN) {
        __atomic_compare_exchange_n(owner, &node, (uint8_t)toucher, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
        node = __atomic_load_n(owner, __ATOMIC_RELAXED);
    }
    return node < model->node_count ? node : toucher;
}

static uint64_t memory_access(struct model *model, struct model_vcpu *vcpu, uint64_t vaddr, uint64_t paddr)
{
    const struct model_config *config = &model->config;
    uint32_t own_node = model->node_of_socket[vcpu->socket];
    uint32_t node = node_of(model, paddr, own_node);
    bool is_local = node == own_node;
    uint64_t *counter = is_local ? &vcpu->llc_misses_local : &vcpu->llc_misses_remote;
    *counter += config->sample;
    vcpu->transferred_lines[node] += config->sample;

    uint64_t stall = (uint64_t)(is_local ? config->latency_local : config->latency_remote) * config->sample;
    if (model->controller[node])
        stall = controller_delay(model->controller[node], stall);
    uint64_t line = vaddr >> LINE_SHIFT;
    bool is_sequential = line - vcpu->last_missed_line == config->sample;
    vcpu->last_missed_line = line;
    return is_sequential ? stall / config->overlap : stall;
}

static uint64_t l2_miss(struct model *model, struct model_vcpu *vcpu, struct place place, uint64_t vaddr,
                        uint64_t paddr)
{
    const struct model_config *config = &model->config;
    vcpu->llc_references += config->sample;
    see_cpu(model, vcpu);
    const struct cache *shadow = &model->shadow[vcpu->socket];
    if (shadow->tags && !cache_touch(shadow, place.llc_set, place.tag))
        vcpu->shadow_llc_misses += config->sample;
    if (cache_touch(&model->llc[vcpu->socket], place.llc_set, place.tag))
        return (uint64_t)config->latency_llc * config->sample;
    return memory_access(model, vcpu, vaddr, paddr);
}

uint64_t model_l1_miss(struct model *model, struct model_vcpu *vcpu, uint64_t vaddr, uint64_t paddr)
{
    uint64_t stall = (uint64_t)model->config.latency_l2 * model->config.sample;
    struct place place = place_of(model, paddr);
    vcpu->l1_misses += model->config.sample;
    if (!cache_touch(&vcpu->l2, place.l2_set, place.tag))
        stall = l2_miss(model, vcpu, place, vaddr, paddr);
    vcpu->stall_cycles += stall;
    return stall;
}

void model_report_bandwidth(struct model *model, struct model_vcpu *vcpu, uint64_t now_ns)
{
    for (uint32_t node = 0; node < model->node_count; node++) {
        struct vpmu_mc *controller = model->controller[node];
        if (controller && vcpu->transferred_lines[node])
            controller_add(controller, vcpu->transferred_lines[node]);
        if (controller)
            controller_close_window(controller, now_ns);
    }
}

void model_publish(const struct model_vcpu *vcpu, volatile struct vpmu_slot *slot)
{
    slot->instructions = vcpu->instructions;
    slot->l1_misses = vcpu->l1_misses;
    slot->llc_references = vcpu->llc_references;
    slot->llc_misses_local = vcpu->llc_misses_local;
    slot->llc_misses_remote = vcpu->llc_misses_remote;
    slot->shadow_llc_misses = vcpu->shadow_llc_misses;
    slot->stall_cycles = vcpu->stall_cycles;
    slot->cpu = vcpu->cpu;
    slot->socket = vcpu->socket;
}
