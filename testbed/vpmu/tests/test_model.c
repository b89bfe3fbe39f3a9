// SPDX-License-Identifier: Apache-2.0
/* One VM alone: address streams whose misses can be counted by hand. L1 16 KiB, L2 32 KiB, LLC 512 KiB. */
#include <string.h>

#include "rig.h"
#include "test.h"

static struct rig_host host;
static struct rig_vm vm;

static void start(uint32_t sample)
{
    rig_host_init(&host);
    host.config.sample = sample;
    rig_vm_init(&vm, &host, 1);
}

static void stop(void)
{
    rig_vm_free(&vm);
    rig_host_free(&host);
}

static void chase_twice(uint64_t bytes)
{
    rig_chase(&vm, 0, bytes);
    rig_reset_counters(&vm);
    rig_chase(&vm, 0, bytes);
}

static void chase_within_l1_costs_nothing(void)
{
    start(1);
    chase_twice(16 * KIB);
    CHECK_EQUAL(vm.vcpu.l1_misses, 0);
    CHECK_EQUAL(vm.vcpu.stall_cycles, 0);
    stop();
}

static void chase_within_l2_never_reaches_the_llc(void)
{
    start(1);
    chase_twice(24 * KIB);
    CHECK_EQUAL(vm.vcpu.l1_misses, 256); /* of 384 lines, 128 have an entry of the 256 to themselves */
    CHECK_EQUAL(vm.vcpu.llc_references, 0);
    CHECK_EQUAL(vm.vcpu.stall_cycles, 256 * 12);
    stop();
}

static void chase_within_the_llc_never_reaches_memory(void)
{
    start(1);
    chase_twice(384 * KIB);
    CHECK_EQUAL(vm.vcpu.llc_references, 6144);
    CHECK_EQUAL(rig_misses(&vm), 0);
    CHECK_EQUAL(vm.vcpu.stall_cycles, 6144 * 40);
    stop();
}

static void chase_fills_the_llc_to_the_last_line(void)
{
    start(1);
    chase_twice(512 * KIB);
    CHECK_EQUAL(rig_misses(&vm), 0);
    stop();
}

static void chase_beyond_the_llc_always_misses(void)
{
    start(1);
    chase_twice(2048 * KIB);
    CHECK_EQUAL(vm.vcpu.llc_references, 32768);
    CHECK_EQUAL(vm.vcpu.llc_misses_local, 32768);
    CHECK_EQUAL(vm.vcpu.stall_cycles, 32768 * 200);
    stop();
}

static void stream_overlaps_its_misses(void)
{
    start(1);
    rig_access(&vm, 0);
    rig_reset_counters(&vm);
    rig_stream(&vm, 64, 1024 * KIB);
    CHECK_EQUAL(rig_misses(&vm), 16384);
    CHECK_EQUAL(vm.vcpu.stall_cycles, 16384 * 200 / 8);
    stop();
}

static uint32_t random_state;

static uint64_t random_line(uint64_t lines)
{
    random_state = random_state * 1664525 + 1013904223;
    return (random_state >> 8) % lines;
}

/* Random accesses to 768 KiB: a third does not fit the LLC. */
static void run_random(uint32_t sample, double *references, double *memory_factor)
{
    start(sample);
    random_state = 1;
    for (int i = 0; i < 400000; i++) {
        if (i == 100000)
            rig_reset_counters(&vm);
        rig_access(&vm, random_line(12288) * 64);
    }
    *references = (double)vm.vcpu.llc_references;
    *memory_factor = rig_memory_factor(&vm);
    stop();
}

static void sampling_gives_the_same_ratios(void)
{
    double references, memory_factor, sampled_references, sampled_factor;
    run_random(1, &references, &memory_factor);
    CHECK_BETWEEN(memory_factor, 0.30, 0.40);
    for (uint32_t sample = 2; sample <= 64; sample *= 2) {
        run_random(sample, &sampled_references, &sampled_factor);
        CHECK_BETWEEN(sampled_references / references, 0.97, 1.03);
        CHECK_BETWEEN(sampled_factor - memory_factor, -0.02, 0.02);
    }
}

static void sampling_counts_a_stream_exactly(void)
{
    start(8);
    rig_stream(&vm, 0, 1024 * KIB);
    CHECK_EQUAL(vm.vcpu.llc_references, 16384);
    CHECK_EQUAL(rig_misses(&vm), 16384);
    CHECK_EQUAL(vm.vcpu.stall_cycles, 8 * 200 + 2047 * 200); /* all but the first overlap: 8 * 200 / 8 */
    stop();
}

static void memory_belongs_to_the_node_of_the_first_touch(void)
{
    start(1);
    vm.cpu = 1;
    rig_stream(&vm, 0, 1024 * KIB);
    CHECK_EQUAL(vm.header.chunk_node[0], 1);
    CHECK_EQUAL(vm.header.chunk_node[1], VPMU_NODE_UNKNOWN);
    CHECK_EQUAL(vm.vcpu.llc_misses_remote, 0);
    vm.cpu = 0;
    chase_twice(1024 * KIB);
    CHECK_EQUAL(vm.header.chunk_node[0], 1);
    CHECK_EQUAL(vm.vcpu.llc_misses_local, 0);
    CHECK_EQUAL(vm.vcpu.llc_misses_remote, 16384);
    CHECK_EQUAL(vm.vcpu.stall_cycles, 16384 * 280);
    stop();
}

static void the_remote_share_is_that_of_the_chunks(void)
{
    start(1);
    for (int chunk = 0; chunk < 4; chunk++)
        vm.header.chunk_node[chunk] = chunk == 3;
    rig_stream(&vm, 0, 8192 * KIB);
    CHECK_EQUAL(vm.vcpu.llc_misses_local, 3 * 32768);
    CHECK_EQUAL(vm.vcpu.llc_misses_remote, 32768);
    stop();
}

static void a_node_that_does_not_exist_counts_as_local(void)
{
    start(1);
    vm.header.chunk_node[0] = 77;
    rig_stream(&vm, 0, 64 * KIB);
    CHECK_EQUAL(vm.vcpu.llc_misses_local, 1024);
    stop();
}

static void another_socket_of_the_same_node_is_local(void)
{
    rig_host_init(&host);
    host.is_one_node = true;
    rig_vm_init(&vm, &host, 1);
    vm.cpu = 1;
    rig_chase(&vm, 0, 1024 * KIB);
    CHECK_EQUAL(vm.header.chunk_node[0], 0);
    CHECK_EQUAL(vm.vcpu.socket, 1);
    vm.header.chunk_node[0] = 1; /* there is no such node here */
    rig_chase(&vm, 0, 1024 * KIB);
    CHECK_EQUAL(vm.vcpu.llc_misses_remote, 0);
    CHECK_EQUAL(vm.vcpu.stall_cycles, 2 * 16384 * 200);
    stop();
}

static void addresses_beyond_the_chunk_map_wrap(void)
{
    start(1);
    rig_access(&vm, (uint64_t)VPMU_CHUNKS << VPMU_CHUNK_SHIFT);
    rig_access(&vm, ~0ull);
    CHECK_EQUAL(vm.header.chunk_node[0], 0);
    CHECK_EQUAL(vm.header.chunk_node[VPMU_CHUNKS - 1], 0);
    stop();
}

static void an_unknown_cpu_is_on_some_socket(void)
{
    start(1);
    vm.cpu = -1;
    rig_access(&vm, 0);
    vm.cpu = 1000000;
    rig_access(&vm, 4096);
    CHECK_BETWEEN(vm.vcpu.socket, 0, 1);
    stop();
}

static void publishing_copies_every_counter(void)
{
    struct vpmu_slot slot = {0};
    start(1);
    vm.vcpu.instructions = 5;
    vm.cpu = 1;
    rig_chase(&vm, 0, 1024 * KIB);
    model_publish(&vm.vcpu, &slot);
    CHECK_EQUAL(slot.instructions, 5);
    CHECK_EQUAL(slot.l1_misses, 16384);
    CHECK_EQUAL(slot.llc_references, 16384);
    CHECK_EQUAL(slot.llc_misses_local, 16384);
    CHECK_EQUAL(slot.llc_misses_remote, 0);
    CHECK_EQUAL(slot.shadow_llc_misses, 16384);
    CHECK_EQUAL(slot.stall_cycles, 16384 * 200);
    CHECK_EQUAL(slot.cpu, 1);
    CHECK_EQUAL(slot.socket, 1);
    stop();
}

static void written_lines_are_written_back_when_they_leave_the_llc(void)
{
    start(1);
    for (uint64_t line = 0; line < 32768; line++) /* 2 MiB through an LLC of 512 KiB */
        rig_write(&vm, line * 64);
    /* All but what L2 and LLC still hold. */
    CHECK_EQUAL(vm.vcpu.write_backs, 32768 - 8192);
    CHECK_EQUAL(vm.vcpu.written_lines[0], vm.vcpu.write_backs);
    rig_reset_counters(&vm);
    rig_stream(&vm, 1 << 30, 512 * KIB);
    CHECK_EQUAL(vm.vcpu.write_backs, 8192);
    rig_stream(&vm, 0, 1024 * KIB); /* what was only read leaves in silence */
    CHECK_EQUAL(vm.vcpu.write_backs, 8192);
    stop();
}

static void a_line_that_is_read_and_then_written_is_dirty_once(void)
{
    start(1);
    for (uint64_t line = 0; line < 8192; line++) {
        rig_access(&vm, line * 64);
        rig_write(&vm, line * 64);
        rig_write(&vm, line * 64);
    }
    CHECK_EQUAL(vm.vcpu.l1_misses, 8192);
    rig_stream(&vm, 1 << 30, 1024 * KIB);
    CHECK_EQUAL(vm.vcpu.write_backs, 8192);
    stop();
}

static void write_backs_go_to_the_node_of_their_memory(void)
{
    start(1);
    memset(vm.header.chunk_node, 1, sizeof vm.header.chunk_node);
    for (uint64_t line = 0; line < 16384; line++)
        rig_write(&vm, line * 64);
    CHECK_EQUAL(vm.vcpu.written_lines[0], 0);
    CHECK_EQUAL(vm.vcpu.written_lines[1], 8192);
    stop();
}

const struct test model_tests[] = {
    {"chase within L1 costs nothing", chase_within_l1_costs_nothing},
    {"chase within L2 never reaches the LLC", chase_within_l2_never_reaches_the_llc},
    {"chase within the LLC never reaches memory", chase_within_the_llc_never_reaches_memory},
    {"chase fills the LLC to the last line", chase_fills_the_llc_to_the_last_line},
    {"chase beyond the LLC always misses", chase_beyond_the_llc_always_misses},
    {"stream overlaps its misses", stream_overlaps_its_misses},
    {"sampling gives the same ratios", sampling_gives_the_same_ratios},
    {"sampling counts a stream exactly", sampling_counts_a_stream_exactly},
    {"memory belongs to the node of the first touch", memory_belongs_to_the_node_of_the_first_touch},
    {"the remote share is that of the chunks", the_remote_share_is_that_of_the_chunks},
    {"a node that does not exist counts as local", a_node_that_does_not_exist_counts_as_local},
    {"another socket of the same node is local", another_socket_of_the_same_node_is_local},
    {"addresses beyond the chunk map wrap", addresses_beyond_the_chunk_map_wrap},
    {"an unknown CPU is on some socket", an_unknown_cpu_is_on_some_socket},
    {"publishing copies every counter", publishing_copies_every_counter},
    {"written lines are written back when they leave the LLC", written_lines_are_written_back_when_they_leave_the_llc},
    {"a line that is read and then written is dirty once", a_line_that_is_read_and_then_written_is_dirty_once},
    {"write-backs go to the node of their memory", write_backs_go_to_the_node_of_their_memory},
    {NULL, NULL},
};
