// SPDX-License-Identifier: Apache-2.0
/* A VM over time, with a clock moved by hand. */
#include "vm.h"

#include <stdlib.h>
#include <string.h>

#include "config.h"
#include "test.h"

#define MS 1000000ull
#define S 1000000000ull

static struct vpmu_vm_header header;
static struct vpmu_slot slots[2];
static struct vm vm;
static uint32_t llc_tags[2][8192];

static int cpu_0(void)
{
    return 0;
}

static void start(uint32_t deadline_s)
{
    struct config standard;
    config_set_defaults(&standard);
    memset(&header, 0, sizeof header);
    memset(slots, 0, sizeof slots);
    memset(&vm, 0, sizeof vm);
    header.socket_count = 2;
    header.mhz = 60;
    header.cpi_x100 = 60;
    vm.header = &header;
    vm.vcpu_count = 2;
    vm.model = (struct model){.config = standard.model, .header = &header, .current_cpu = cpu_0, .vm_id = 1};
    vm.model.node_count = 2;
    for (int i = 0; i < 2; i++) {
        vm.model.llc[i] = (struct cache){llc_tags[i], 512, 16};
        vm.model.node_of_socket[i] = (uint8_t)i;
    }
    vm.boot.started_ns = S;
    vm.boot_limits = (struct boot_limits){.deadline_ns = deadline_s * S, .user_instructions = 50000000};
    for (uint32_t i = 0; i < 2; i++)
        CHECK(vm_init_vcpu(&vm, i, &slots[i], S));
}

static void stop(void)
{
    for (int i = 0; i < 2; i++) {
        free(vm.vcpus[i].model.l1_lines);
        free(vm.vcpus[i].model.l2.tags);
    }
}

/* Instructions in blocks of ten until a tick is due; returns how many. */
static uint64_t run_to_tick(struct vcpu *vcpu)
{
    uint64_t instructions = 10;
    while (!vcpu_runs(vcpu, 10))
        instructions += 10;
    return instructions;
}

static void a_booting_guest_is_neither_paced_nor_counted(void)
{
    start(30);
    for (int i = 0; i < 1000; i++) {
        run_to_tick(&vm.vcpus[0]);
        CHECK_EQUAL(vcpu_tick(&vm, &vm.vcpus[0], true, S + MS), 0);
    }
    vcpu_halt(&vm, &vm.vcpus[0], S + MS);
    CHECK_EQUAL(header.phase, VPMU_PHASE_BOOT);
    CHECK_EQUAL(slots[0].instructions, 0);
    CHECK_EQUAL(slots[0].cycles, 0);
    CHECK(!vm.vcpus[0].is_measured);
    stop();
}

static void one_vcpu_in_user_space_ends_the_boot_for_all(void)
{
    start(30);
    vm.boot.kernel_instructions = BOOT_KERNEL_INSTRUCTIONS;
    vcpu_runs(&vm.vcpus[0], 50000000);
    vcpu_tick(&vm, &vm.vcpus[0], false, S + MS);
    CHECK_EQUAL(header.phase, VPMU_PHASE_MEASURED);
    vcpu_runs(&vm.vcpus[1], 50000);
    vcpu_tick(&vm, &vm.vcpus[1], true, S + MS);
    CHECK(vm.vcpus[1].is_measured);
    CHECK_EQUAL(slots[0].instructions, 0); /* what ran before the switch is forgotten */
    CHECK_EQUAL(slots[1].instructions, 0);
    stop();
}

static void a_measured_guest_runs_at_its_modelled_clock(void)
{
    start(0);
    struct vcpu *vcpu = &vm.vcpus[0];
    uint64_t now_ns = S, instructions = 0, paced_ns = 0;
    CHECK_EQUAL(header.phase, VPMU_PHASE_MEASURED);
    for (int i = 0; i < 2000; i++) {
        instructions += run_to_tick(vcpu);
        now_ns += MS / 10; /* the host needs 0.1 ms for half a modelled one */
        uint64_t sleep_ns = vcpu_tick(&vm, vcpu, false, now_ns);
        now_ns += sleep_ns;
        paced_ns += sleep_ns;
    }
    CHECK_BETWEEN(now_ns - S, 0.998e9, 1.002e9);
    CHECK_BETWEEN(slots[0].cycles, 59.9e6, 60.1e6);
    CHECK_EQUAL(slots[0].instructions, instructions);
    CHECK_BETWEEN((double)slots[0].instructions * 0.6 / (double)slots[0].cycles, 0.999, 1.001);
    CHECK_EQUAL(slots[0].paced_ns, paced_ns);
    CHECK_EQUAL(slots[0].debt_ns, 0);
    stop();
}

static void a_slow_host_shows_as_debt(void)
{
    start(0);
    struct vcpu *vcpu = &vm.vcpus[0];
    uint64_t now_ns = S;
    for (int i = 0; i < 2000; i++) {
        run_to_tick(vcpu);
        now_ns += MS; /* a whole ms for half a modelled one */
        CHECK_EQUAL(vcpu_tick(&vm, vcpu, false, now_ns), 0);
    }
    CHECK_BETWEEN(slots[0].debt_ns, 0.89e9, 0.91e9); /* 1 s lost in 2 s, less 0.1 s that it might still catch up */
    stop();
}

static void time_without_a_cpu_is_no_debt_to_a_busy_guest(void)
{
    start(0);
    struct vcpu *vcpu = &vm.vcpus[0];
    uint64_t now_ns = S;
    for (int i = 0; i < 400; i++) {
        run_to_tick(vcpu);
        now_ns += MS;
        vcpu->away_ns += MS / 2; /* a quota of half a CPU: half a ms for half a modelled one */
        CHECK_EQUAL(vcpu_tick(&vm, vcpu, false, now_ns), 0);
    }
    CHECK_EQUAL(slots[0].debt_ns, 0);
    run_to_tick(vcpu);
    CHECK_BETWEEN(vcpu_tick(&vm, vcpu, false, now_ns), 0.4e6, 0.6e6); /* nor credit for it */
    stop();
}

static void misses_take_modelled_time(void)
{
    start(0);
    struct vcpu *vcpu = &vm.vcpus[0];
    for (uint64_t page = 0; page < 100; page++)
        vcpu_misses(&vm, vcpu, page * 65536, page * 65536);
    CHECK(vcpu_runs(vcpu, 1)); /* 100 misses of 8 * 200 cycles are more than half a ms */
    vcpu_tick(&vm, vcpu, false, S);
    CHECK_EQUAL(slots[0].stall_cycles, 160000);
    CHECK_EQUAL(slots[0].cycles, 160000); /* and 0.6 for the instruction */
    CHECK_EQUAL(slots[0].llc_misses_local, 800);
    CHECK_EQUAL(slots[0].updated_ns, S);
    stop();
}

static void a_halted_vcpu_publishes_and_owes_nothing_for_its_idle_time(void)
{
    start(0);
    struct vcpu *vcpu = &vm.vcpus[0];
    run_to_tick(vcpu);
    vcpu_tick(&vm, vcpu, false, S);
    vcpu_runs(vcpu, 100);
    uint64_t seen = slots[0].instructions;
    vcpu_halt(&vm, vcpu, S + MS);
    CHECK_EQUAL(slots[0].instructions, seen + 100);
    vcpu_resume(vcpu, 100 * S);
    run_to_tick(vcpu);
    CHECK_BETWEEN(vcpu_tick(&vm, vcpu, false, 100 * S), MS / 3, MS);
    CHECK_EQUAL(slots[0].debt_ns, 0);
    stop();
}

static void live_controls_take_effect_at_the_next_tick(void)
{
    start(0);
    struct vcpu *vcpu = &vm.vcpus[0];
    run_to_tick(vcpu);
    vcpu_tick(&vm, vcpu, false, S);
    header.mhz = 0;
    header.cpi_x100 = 0; /* nonsense from outside must not stop the ticks */
    run_to_tick(vcpu);
    CHECK_EQUAL(vcpu_tick(&vm, vcpu, false, S), 0);
    CHECK_BETWEEN(run_to_tick(vcpu), 1, 1e7);
    header.mhz = UINT32_MAX;
    vcpu_tick(&vm, vcpu, false, S);
    vcpu_tick(&vm, vcpu, false, S);
    CHECK_EQUAL(slots[0].debt_ns, 0);
    stop();
}

static void a_reset_lets_the_guest_boot_at_full_speed_and_keeps_its_counters(void)
{
    start(0);
    struct vcpu *vcpu = &vm.vcpus[0];
    run_to_tick(vcpu);
    vcpu_tick(&vm, vcpu, false, S);
    uint64_t counted = slots[0].instructions;
    vm.boot_limits.deadline_ns = 30 * S;
    vm_reset(&vm, 2 * S);
    CHECK_EQUAL(header.phase, VPMU_PHASE_BOOT);
    for (int i = 0; i < 10; i++) {
        run_to_tick(vcpu);
        CHECK_EQUAL(vcpu_tick(&vm, vcpu, true, 2 * S), 0);
    }
    CHECK(!vcpu->is_measured);
    vcpu_runs(vcpu, 7);
    vcpu_tick(&vm, vcpu, false, 32 * S); /* the deadline: this tick is still the boot's */
    vcpu_runs(vcpu, 5);
    vcpu_halt(&vm, vcpu, 32 * S);
    CHECK_EQUAL(slots[0].instructions, counted + 5);
    CHECK_EQUAL(slots[0].debt_ns, 0);
    stop();
}

const struct test vm_tests[] = {
    {"a reset lets the guest boot at full speed", a_reset_lets_the_guest_boot_at_full_speed_and_keeps_its_counters},
    {"a booting guest is neither paced nor counted", a_booting_guest_is_neither_paced_nor_counted},
    {"one vCPU in user space ends the boot for all", one_vcpu_in_user_space_ends_the_boot_for_all},
    {"a measured guest runs at its modelled clock", a_measured_guest_runs_at_its_modelled_clock},
    {"a slow host shows as debt", a_slow_host_shows_as_debt},
    {"time without a CPU is no debt to a busy guest", time_without_a_cpu_is_no_debt_to_a_busy_guest},
    {"misses take modelled time", misses_take_modelled_time},
    {"a halted vCPU publishes and owes nothing", a_halted_vcpu_publishes_and_owes_nothing_for_its_idle_time},
    {"live controls take effect at the next tick", live_controls_take_effect_at_the_next_tick},
    {NULL, NULL},
};
