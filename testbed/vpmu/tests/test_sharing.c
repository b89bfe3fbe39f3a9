// SPDX-License-Identifier: Apache-2.0
/* Two VMs of one modelled host: what they do to each other through the LLC and the memory controllers. */
#include <string.h>

#include "controller.h"
#include "rig.h"
#include "test.h"

#define CAPACITY_LINES_PER_S 1000000ull

static struct rig_host host;
static struct rig_vm victim, other;

static void start_on_nodes(bool has_bandwidth, bool is_one_node)
{
    rig_host_init(&host);
    host.has_bandwidth = has_bandwidth;
    host.is_one_node = is_one_node;
    rig_vm_init(&victim, &host, 1);
    rig_vm_init(&other, &host, 2);
    for (int i = 0; i < 2; i++)
        host.controllers[i].capacity_lines_per_s = CAPACITY_LINES_PER_S;
}

static void start(bool has_bandwidth)
{
    start_on_nodes(has_bandwidth, false);
}

static void stop(void)
{
    rig_vm_free(&victim);
    rig_vm_free(&other);
    rig_host_free(&host);
}

/* The victim's chase of 384 KiB, the other moving two lines of a stream for each of its own. */
static void run_together(uint64_t rounds)
{
    uint64_t streamed = 0;
    for (uint64_t round = 0; round < rounds; round++)
        for (uint64_t i = 0, line = 0; i < 6144; i++, line = (line + 1009) % 6144) {
            rig_access(&victim, line * 64);
            rig_access(&other, streamed++ % 262144 * 64);
            rig_access(&other, streamed++ % 262144 * 64);
        }
}

static void a_stream_on_the_same_socket_evicts_the_victim(void)
{
    start(false);
    run_together(1);
    rig_reset_counters(&victim);
    run_together(4);
    CHECK_BETWEEN(rig_memory_factor(&victim), 0.6, 1.0);
    CHECK_EQUAL(rig_shadow_memory_factor(&victim), 0); /* alone it would fit */
    stop();
}

static void a_stream_on_the_other_socket_does_not(void)
{
    start(false);
    other.cpu = 1;
    run_together(1);
    rig_reset_counters(&victim);
    run_together(4);
    CHECK_EQUAL(rig_memory_factor(&victim), 0);
    stop();
}

static void moving_the_stream_away_lets_the_victim_recover(void)
{
    start(false);
    run_together(4);
    other.cpu = 1; /* nothing but the CPU it runs on says so */
    run_together(1);
    rig_reset_counters(&victim);
    run_together(1);
    CHECK_EQUAL(rig_memory_factor(&victim), 0);
    CHECK_EQUAL(other.vcpu.socket, 1);
    stop();
}

static void a_small_hot_set_is_protected_by_lru(void)
{
    start(false);
    for (int round = 0; round < 40; round++) {
        rig_chase(&victim, 0, 64 * KIB);
        rig_stream(&other, (uint64_t)round * 64 * KIB, 64 * KIB);
    }
    CHECK_BETWEEN(rig_memory_factor(&victim), 0, 0.03); /* the 1024 cold misses of 40960 */
    stop();
}

static void equal_addresses_of_two_vms_are_different_lines(void)
{
    start(false);
    rig_chase(&victim, 0, 64 * KIB);
    rig_chase(&other, 0, 64 * KIB);
    CHECK_EQUAL(rig_misses(&other), 1024);
    stop();
}

/* Ten windows in which the other moves a share of what node 0 can. */
static void load_node_0(uint64_t permille)
{
    uint64_t now_ns = host.controllers[0].window_start_ns;
    for (int window = 0; window < 40; window++) {
        now_ns += CONTROLLER_WINDOW_NS;
        other.vcpu.transferred_lines[0] = CAPACITY_LINES_PER_S / 100 * permille / 1000;
        model_report_bandwidth(&other.model, &other.vcpu, now_ns);
    }
}

static void report(struct rig_vm *vm, uint64_t now_ns)
{
    model_report_bandwidth(&vm->model, &vm->vcpu, now_ns);
    memset(vm->vcpu.transferred_lines, 0, sizeof vm->vcpu.transferred_lines);
}

static uint64_t stall_of_a_miss(uint64_t address)
{
    rig_reset_counters(&victim);
    rig_access(&victim, address);
    return victim.vcpu.stall_cycles;
}

static void a_busy_controller_slows_everyones_misses(void)
{
    start(true);
    CHECK_EQUAL(stall_of_a_miss(0), 200);
    load_node_0(800);
    CHECK_BETWEEN(host.controllers[0].utilisation_permille, 795, 800);
    CHECK_BETWEEN(stall_of_a_miss(64 * KIB), 580, 600); /* 1 + 0.8 / (2 * 0.2) = 3 times */
    CHECK_EQUAL(host.controllers[1].latency_x256, CONTROLLER_LATENCY_ONE);
    load_node_0(0);
    CHECK_EQUAL(stall_of_a_miss(128 * KIB), 200);
    stop();
}

static void without_bandwidth_a_miss_always_costs_the_same(void)
{
    start(false);
    load_node_0(2000);
    CHECK_EQUAL(stall_of_a_miss(0), 200);
    stop();
}

static void misses_load_the_controller_of_the_memorys_node(void)
{
    start(true);
    victim.header.chunk_node[0] = 1;
    rig_stream(&victim, 0, 64 * KIB);
    CHECK_EQUAL(victim.vcpu.transferred_lines[0], 0);
    CHECK_EQUAL(victim.vcpu.transferred_lines[1], 1024);
    model_report_bandwidth(&victim.model, &victim.vcpu, CONTROLLER_WINDOW_NS);
    CHECK_EQUAL(host.controllers[1].total_lines, 1024);
    stop();
}

#define ACCESSES_PER_WINDOW 5000

struct outcome {
    double memory_factor;
    double cycles_per_reference;
};

/* The victim's random reads of 768 KiB on socket 0 while the other streams on socket 1; the last of 40 windows. */
static struct outcome run_beside_a_stream_on_the_other_socket(bool is_one_node)
{
    uint32_t random_state = 1;
    uint64_t now_ns = 0, streamed = 0;
    start_on_nodes(true, is_one_node);
    other.cpu = 1;
    for (int window = 0; window < 40; window++) {
        rig_reset_counters(&victim);
        for (int i = 0; i < ACCESSES_PER_WINDOW; i++) {
            random_state = random_state * 1664525 + 1013904223;
            rig_access(&victim, (random_state >> 8) % 12288 * 64);
            rig_access(&other, streamed++ % 262144 * 64);
        }
        now_ns += CONTROLLER_WINDOW_NS;
        report(&victim, now_ns);
        report(&other, now_ns);
    }
    struct outcome outcome = {
        .memory_factor = rig_memory_factor(&victim),
        .cycles_per_reference = (double)victim.vcpu.stall_cycles / (double)victim.vcpu.llc_references,
    };
    stop();
    return outcome;
}

static void llcs_of_one_node_contend_for_its_controller_alone(void)
{
    struct outcome apart = run_beside_a_stream_on_the_other_socket(false);
    struct outcome together = run_beside_a_stream_on_the_other_socket(true);
    CHECK_BETWEEN(apart.memory_factor, 0.3, 0.4);
    CHECK_EQUAL(together.memory_factor, apart.memory_factor);
    CHECK_BETWEEN(together.cycles_per_reference / apart.cycles_per_reference, 1.4, 2.0);
}

const struct test sharing_tests[] = {
    {"a stream on the same socket evicts the victim", a_stream_on_the_same_socket_evicts_the_victim},
    {"a stream on the other socket does not", a_stream_on_the_other_socket_does_not},
    {"moving the stream away lets the victim recover", moving_the_stream_away_lets_the_victim_recover},
    {"a small hot set is protected by LRU", a_small_hot_set_is_protected_by_lru},
    {"equal addresses of two VMs are different lines", equal_addresses_of_two_vms_are_different_lines},
    {"a busy controller slows everyone's misses", a_busy_controller_slows_everyones_misses},
    {"without bandwidth a miss always costs the same", without_bandwidth_a_miss_always_costs_the_same},
    {"LLCs of one node contend for its controller alone", llcs_of_one_node_contend_for_its_controller_alone},
    {"misses load the controller of the memory's node", misses_load_the_controller_of_the_memorys_node},
    {NULL, NULL},
};
