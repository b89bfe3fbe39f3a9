// SPDX-License-Identifier: Apache-2.0
#include "model.h"

#include <stdlib.h>
#include <string.h>

#include "controller.h"

/* Where a guest-physical line sits: its set (modulo the sets of each cache) and its tag, see cache.h. */
struct place {
    uint32_t l2_set;
    uint32_t llc_set;
    uint64_t line;
};

#define TAG_PAGES (1ull << 40)

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
    vcpu->l2.lines = calloc((size_t)sets * model->config.l2_ways, sizeof(uint64_t));
    if (!vcpu->l1_lines || !vcpu->l2.lines)
        return false;
    model_flush_l1(vcpu);
    return true;
}

bool model_init_shadow(struct model *model)
{
    for (uint32_t i = 0; model->config.shadow && i < model->header->socket_count; i++) {
        struct cache *shadow = &model->shadow[i];
        *shadow = (struct cache){.sets = model_llc_sets(&model->config), .ways = model->config.llc_ways};
        shadow->lines = calloc((size_t)shadow->sets * shadow->ways, sizeof(uint64_t));
        if (!shadow->lines)
            return false;
    }
    return true;
}

void model_flush_l1(struct model_vcpu *vcpu)
{
    memset(vcpu->l1_lines, 0xff, (vcpu->l1_mask + 1) * sizeof(uint64_t));
}

/*
 * The line's number within its page is the low part of the set, so a tag needs only the page number.
 * Pages go round the rest of the LLC's sets, beginning elsewhere for each VM: a buffer of neighbouring pages fills all
 * sets evenly, where a hash would overfill some by chance and let a fitting working set miss.
 */
static struct place place_at(const struct model *model, uint32_t line_in_page, uint64_t page)
{
    return (struct place){
        .l2_set = line_in_page | (uint32_t)page << 6,
        .llc_set = line_in_page | ((uint32_t)page + 3 * model->vm_id) << 6,
        .line = (uint64_t)model->vm_id * TAG_PAGES + page,
    };
}

static struct place place_of(const struct model *model, uint64_t paddr)
{
    uint32_t line_in_page = (paddr >> LINE_SHIFT) & (LINES_PER_PAGE - 1);
    return place_at(model, line_in_page, (paddr >> PAGE_SHIFT) % TAG_PAGES);
}

static void see_cpu(const struct model *model, struct model_vcpu *vcpu)
{
    int cpu = model->current_cpu();
    if (cpu == vcpu->cpu && vcpu->socket >= 0)
        return;
    vcpu->cpu = cpu;
    vcpu->socket = model->socket_of_cpu[(uint32_t)cpu % VPMU_MAX_CPUS];
}

static uint8_t *owner_of(struct model *model, uint64_t paddr)
{
    return &model->header->chunk_node[(paddr >> VPMU_CHUNK_SHIFT) % VPMU_CHUNKS];
}

/* Where a chunk lies, or will lie if `toucher`'s node misses on it. The map is shared with whoever moves memory, so a
 * value out of range counts as that node. */
static uint32_t node_of(struct model *model, uint64_t paddr, uint32_t toucher)
{
    uint8_t node = __atomic_load_n(owner_of(model, paddr), __ATOMIC_RELAXED);
    return node < model->node_count ? node : toucher;
}

/* First touch: an unowned chunk becomes the toucher's node's. */
static void own_chunk(struct model *model, uint64_t paddr, uint32_t toucher)
{
    uint8_t unknown = VPMU_NODE_UNKNOWN;
    __atomic_compare_exchange_n(owner_of(model, paddr), &unknown, (uint8_t)toucher, false, __ATOMIC_RELAXED,
                                __ATOMIC_RELAXED);
}

static uint64_t memory_read(struct model *model, struct model_vcpu *vcpu, uint32_t node, uint64_t vaddr)
{
    const struct model_config *config = &model->config;
    bool is_local = node == model->node_of_socket[vcpu->socket];
    uint64_t *counter = is_local ? &vcpu->llc_misses_local : &vcpu->llc_misses_remote;
    *counter += config->sample;
    vcpu->read_lines[node] += config->sample;

    uint64_t stall = (uint64_t)(is_local ? config->latency_local : config->latency_remote) * config->sample;
    if (model->controller[node])
        stall = controller_read_delay(model->controller[node], stall);
    uint64_t line = vaddr >> LINE_SHIFT;
    bool is_sequential = line - vcpu->last_missed_line == config->sample;
    vcpu->last_missed_line = line;
    return is_sequential ? stall / config->overlap : stall;
}

/* A node from the shared LLC may be anything. */
static uint64_t memory_write(struct model *model, struct model_vcpu *vcpu, uint32_t node)
{
    const struct vpmu_mc *controller = model->controller[node %= model->node_count];
    vcpu->write_backs += model->config.sample;
    vcpu->written_lines[node] += model->config.sample;
    return controller ? controller_write_delay(controller, model->write_line_cycles) * model->config.sample : 0;
}

static uint64_t l2_miss(struct model *model, struct model_vcpu *vcpu, struct place place, uint64_t vaddr,
                        uint64_t paddr)
{
    const struct model_config *config = &model->config;
    uint64_t victim = 0;
    vcpu->llc_references += config->sample;
    see_cpu(model, vcpu);
    const struct cache *shadow = &model->shadow[vcpu->socket];
    if (shadow->lines && !cache_touch(shadow, place.llc_set, place.line, &victim))
        vcpu->shadow_llc_misses += config->sample;
    uint32_t own_node = model->node_of_socket[vcpu->socket], node = node_of(model, paddr, own_node);
    uint64_t line = place.line | (uint64_t)node << CACHE_NODE_SHIFT;
    if (cache_touch(&model->llc[vcpu->socket], place.llc_set, line, &victim))
        return (uint64_t)config->latency_llc * config->sample;
    own_chunk(model, paddr, own_node);
    uint64_t stall = memory_read(model, vcpu, node, vaddr);
    if (victim & CACHE_DIRTY)
        stall += memory_write(model, vcpu, (uint32_t)(victim >> CACHE_NODE_SHIFT) & 0xf);
    return stall;
}

/* A written line of this VM leaves L2, or was written where L2 has it no more: to the LLC, or past it to memory. */
static uint64_t write_below_l2(struct model *model, struct model_vcpu *vcpu, struct place place)
{
    uint64_t page = place.line % TAG_PAGES;
    if (vcpu->socket < 0 || cache_write(&model->llc[vcpu->socket], place.llc_set, place.line))
        return 0;
    return memory_write(model, vcpu, node_of(model, page << PAGE_SHIFT, model->node_of_socket[vcpu->socket]));
}

uint64_t model_l1_miss(struct model *model, struct model_vcpu *vcpu, uint64_t vaddr, uint64_t paddr, bool is_write)
{
    uint64_t stall = (uint64_t)model->config.latency_l2 * model->config.sample;
    struct place place = place_of(model, paddr);
    uint64_t victim = 0;
    vcpu->l1_misses += model->config.sample;
    if (!cache_touch(&vcpu->l2, place.l2_set, place.line | (is_write ? CACHE_DIRTY : 0), &victim))
        stall = l2_miss(model, vcpu, place, vaddr, paddr);
    /* The victim's set is the missing line's, and with it its place in its page. */
    if (victim & CACHE_DIRTY)
        stall += write_below_l2(model, vcpu, place_at(model, place.l2_set % LINES_PER_PAGE, victim % TAG_PAGES));
    vcpu->stall_cycles += stall;
    return stall;
}

uint64_t model_first_write(struct model *model, struct model_vcpu *vcpu, uint64_t paddr)
{
    struct place place = place_of(model, paddr);
    uint64_t stall = cache_write(&vcpu->l2, place.l2_set, place.line) ? 0 : write_below_l2(model, vcpu, place);
    vcpu->stall_cycles += stall;
    return stall;
}

void model_report_bandwidth(struct model *model, struct model_vcpu *vcpu, uint64_t now_ns)
{
    for (uint32_t node = 0; node < model->node_count; node++) {
        struct vpmu_mc *controller = model->controller[node];
        if (!controller)
            continue;
        if (vcpu->read_lines[node])
            controller_add_reads(controller, vcpu->read_lines[node]);
        if (vcpu->written_lines[node])
            controller_add_writes(controller, vcpu->written_lines[node]);
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
    slot->write_backs = vcpu->write_backs;
    slot->cpu = vcpu->cpu;
    slot->socket = vcpu->socket;
}
