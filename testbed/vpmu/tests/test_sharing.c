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
        other.vcpu.read_lines[0] = CAPACITY_LINES_PER_S / 100 * permille / 1000;
        model_report_bandwidth(&other.model, &other.vcpu, now_ns);
    }
}

static void report(struct rig_vm *vm, uint64_t now_ns)
{
    model_report_bandwidth(&vm->model, &vm->vcpu, now_ns);
    memset(vm->vcpu.read_lines, 0, sizeof vm->vcpu.read_lines);
    memset(vm->vcpu.written_lines, 0, sizeof vm->vcpu.written_lines);
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
    CHECK_BETWEEN(stall_of_a_miss(64 * KIB), 355, 360); /* 1.8 times: others close its rows */
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
    CHECK_EQUAL(victim.vcpu.read_lines[0], 0);
    CHECK_EQUAL(victim.vcpu.read_lines[1], 1024);
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
    CHECK_BETWEEN(together.cycles_per_reference / apart.cycles_per_reference, 1.25, 1.45);
}

#define CYCLES_PER_WINDOW 600000 /* of 60 MHz */
#define CYCLES_PER_LINE 8        /* without stalls */

struct streamer {
    struct rig_vm *vm;
    void (*access)(struct rig_vm *vm, uint64_t address);
    uint64_t streamed;
    uint64_t lines; /* in the last window */
};

/* As a paced vCPU does: as many lines as its cycles allow. */
static void stream_for_a_window(struct streamer *streamer)
{
    uint64_t cycles = 0;
    for (streamer->lines = 0; cycles < CYCLES_PER_WINDOW; streamer->lines++) {
        uint64_t before = streamer->vm->vcpu.stall_cycles;
        streamer->access(streamer->vm, streamer->streamed++ % 262144 * 64);
        cycles += CYCLES_PER_LINE + streamer->vm->vcpu.stall_cycles - before;
    }
}

/* Each with an LLC of its own, at one controller. Returns what it moved in the last of 60 windows. */
static uint64_t stream_together(struct streamer *one, struct streamer *two, uint64_t capacity_lines_per_window,
                                uint64_t write_capacity_lines_per_window)
{
    uint64_t before = 0;
    start_on_nodes(true, true);
    other.cpu = 1;
    host.controllers[0].capacity_lines_per_s = capacity_lines_per_window * 100;
    host.controllers[0].write_capacity_lines_per_s = write_capacity_lines_per_window * 100;
    for (int window = 0; window < 60; window++) {
        before = host.controllers[0].total_lines;
        stream_for_a_window(one);
        stream_for_a_window(two);
        report(one->vm, host.controllers[0].window_start_ns + CONTROLLER_WINDOW_NS);
        report(two->vm, host.controllers[0].window_start_ns); /* in the window that follows */
    }
    return host.controllers[0].total_lines - before;
}

static void two_readers_find_room_and_pay_for_closed_rows_only(void)
{
    struct streamer one = {&victim, rig_access, 0, 0}, two = {&other, rig_access, 0, 0};
    uint64_t lines = stream_together(&one, &two, 48000, 20000);
    CHECK_BETWEEN(lines, 26000, 28500); /* each 600000 / (8 + 25 * 1.56) */
    CHECK_EQUAL(host.controllers[0].price_x65536, CONTROLLER_PRICE_ONE);
    CHECK_EQUAL(host.controllers[0].total_written_lines, 0);
    stop();
}

static void two_writers_are_held_at_the_limit_of_the_write_buffers(void)
{
    struct streamer one = {&victim, rig_write, 0, 0}, two = {&other, rig_write, 0, 0};
    uint64_t lines = stream_together(&one, &two, 48000, 20000);
    CHECK_BETWEEN(lines, 39000, 41000); /* 20000 fetched and 20000 written */
    CHECK_BETWEEN(host.controllers[0].write_utilisation_permille, 970, 1030);
    CHECK_BETWEEN(host.controllers[0].utilisation_permille, 810, 860);
    CHECK_EQUAL(host.controllers[0].price_x65536, CONTROLLER_PRICE_ONE);
    CHECK_BETWEEN(one.lines, 9500, 10500);
    stop();
}

static void a_reader_beside_a_writer_does_not_pay_for_the_write_buffers(void)
{
    struct streamer reader = {&victim, rig_access, 0, 0}, writer = {&other, rig_write, 0, 0};
    stream_together(&reader, &writer, 48000, 6000);
    CHECK_BETWEEN(writer.lines, 5700, 6300);
    CHECK_BETWEEN(reader.lines, 12600, 13400); /* 600000 / (8 + 25 * 1.52) */
    CHECK_EQUAL(victim.vcpu.write_backs, 0);
    stop();
}

static void together_they_are_held_at_the_limit_of_the_bus(void)
{
    struct streamer reader = {&victim, rig_access, 0, 0}, writer = {&other, rig_write, 0, 0};
    uint64_t lines = stream_together(&reader, &writer, 24000, 0);
    CHECK_BETWEEN(lines, 23300, 24700);
    CHECK_BETWEEN(reader.lines, 7700, 8300); /* a third read by each, and a third written */
    CHECK_BETWEEN(writer.lines, 7700, 8300);
    stop();
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
    {"two readers find room and pay for closed rows only", two_readers_find_room_and_pay_for_closed_rows_only},
    {"two writers are held at the limit of the write buffers", two_writers_are_held_at_the_limit_of_the_write_buffers},
    {"a reader beside a writer does not pay for the write buffers",
     a_reader_beside_a_writer_does_not_pay_for_the_write_buffers},
    {"together they are held at the limit of the bus", together_they_are_held_at_the_limit_of_the_bus},
    {NULL, NULL},
};
