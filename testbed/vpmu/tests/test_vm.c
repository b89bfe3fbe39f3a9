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
static uint64_t llc_lines[2][8192];

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
        vm.model.llc[i] = (struct cache){llc_lines[i], 512, 16};
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
        free(vm.vcpus[i].model.l2.lines);
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
        vcpu_accesses(&vm, vcpu, MODEL_L1_MISS, page * 65536, page * 65536, false);
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

static struct vpmu_cpus table;

/* Both vCPUs on modelled CPU 0 of two. */
static void start_on_one_cpu(uint32_t deadline_s)
{
    static const struct cpus_claim CLAIM = {.allowed = {{1}}, .weight = 1024, .vm_weight = 1024};
    start(deadline_s);
    memset(&table, 0, sizeof table);
    table.cpu_count = 2;
    cpus_join(&table, 1, 2);
    for (uint32_t i = 0; i < 2; i++) {
        vm.vcpus[i].seat = cpus_seat(&table, 1, i, S);
        cpus_claim(&vm.vcpus[i].seat, &CLAIM);
    }
}

/* A host that needs no time: each vCPU ticks as soon as it owes nothing, and looks again every millisecond. */
static void pass_together(uint64_t *now_ns, uint64_t span_ns)
{
    uint64_t owed_ns[2] = {0, 0};
    for (uint64_t end_ns = *now_ns + span_ns; *now_ns < end_ns; *now_ns += MS / 4)
        for (int i = 0; i < 2; i++) {
            if (owed_ns[i])
                owed_ns[i] = vcpu_still_owes(&vm.vcpus[i], *now_ns);
            if (owed_ns[i])
                continue;
            run_to_tick(&vm.vcpus[i]);
            owed_ns[i] = vcpu_tick(&vm, &vm.vcpus[i], false, *now_ns);
        }
}

static void on_half_a_modelled_cpu_a_guest_runs_at_half_its_clock(void)
{
    uint64_t now_ns = S;
    start_on_one_cpu(0);
    pass_together(&now_ns, 4 * S);
    for (int i = 0; i < 2; i++) {
        CHECK_BETWEEN(slots[i].cycles, 119e6, 121.5e6); /* of 240 million */
        CHECK_BETWEEN(slots[i].granted_ns, 1.98e9, 2.02e9);
        CHECK_BETWEEN(slots[i].run_delay_ns, 1.98e9, 2.02e9);
        CHECK_EQUAL(slots[i].throttled_ns, 0);
        CHECK_EQUAL(slots[i].debt_ns, 0);
        CHECK_EQUAL(slots[i].cpu, 0);
    }
    stop();
}

/* Each vCPU on one of two CPUs, which are one core. */
static void start_on_siblings(void)
{
    start_on_one_cpu(0);
    cpus_set_siblings(&table, 0, 1);
    vm.sibling_percent = 65;
    for (uint32_t i = 0; i < 2; i++) {
        const struct cpus_claim claim = {.allowed = {{1u << i}}, .weight = 1024, .vm_weight = 1024};
        cpus_claim(&vm.vcpus[i].seat, &claim);
    }
}

static void beside_a_busy_sibling_a_guest_computes_less_in_as_many_cycles(void)
{
    uint64_t now_ns = S;
    start_on_siblings();
    pass_together(&now_ns, 4 * S);
    for (int i = 0; i < 2; i++) {
        CHECK_BETWEEN(slots[i].cycles, 239e6, 241e6);
        CHECK_BETWEEN((double)slots[i].instructions, 0.65 * 400e6 * 0.99, 0.65 * 400e6 * 1.01);
        CHECK_BETWEEN(slots[i].granted_ns, 3.98e9, 4e9);
        CHECK_BETWEEN(slots[i].beside_sibling_ns, 3.97e9, 4e9);
        CHECK_EQUAL(slots[i].run_delay_ns, 0);
    }
    uint64_t before = slots[0].instructions;
    vcpu_halt(&vm, &vm.vcpus[1], now_ns);
    for (uint64_t end_ns = now_ns + S; now_ns < end_ns; now_ns += MS / 4) {
        run_to_tick(&vm.vcpus[0]);
        for (uint64_t owed_ns = vcpu_tick(&vm, &vm.vcpus[0], false, now_ns); owed_ns; now_ns += MS / 4)
            owed_ns = vcpu_still_owes(&vm.vcpus[0], now_ns);
    }
    CHECK_BETWEEN((double)(slots[0].instructions - before), 97e6, 101e6);
    stop();
}

static void a_busy_sibling_makes_nobody_wait_longer_for_memory(void)
{
    uint64_t now_ns = S;
    start_on_siblings();
    pass_together(&now_ns, S);
    uint64_t before = slots[0].cycles;
    for (uint64_t page = 0; page < 100; page++)
        vcpu_accesses(&vm, &vm.vcpus[0], MODEL_L1_MISS, page * 65536, page * 65536, false);
    vcpu_tick(&vm, &vm.vcpus[0], false, now_ns);
    CHECK_EQUAL(slots[0].cycles - before, 160000);
    stop();
}

static void a_guest_that_the_host_cannot_run_is_in_debt_on_modelled_cpus_too(void)
{
    start_on_one_cpu(0);
    struct vcpu *vcpu = &vm.vcpus[0];
    uint64_t now_ns = S;
    for (int i = 0; i < 2000; i++) {
        run_to_tick(vcpu);
        now_ns += MS; /* a whole ms for half a modelled one */
        CHECK_EQUAL(vcpu_tick(&vm, vcpu, false, now_ns), 0);
    }
    CHECK_BETWEEN(slots[0].debt_ns, 0.88e9, 0.91e9);
    uint64_t before_ns = slots[0].debt_ns;
    run_to_tick(vcpu);
    vcpu_tick(&vm, vcpu, false, now_ns + 2 * S); /* the host took the thread away for 2 s */
    CHECK_BETWEEN(slots[0].debt_ns - before_ns, 1.8e9, 2.1e9);
    stop();
}

static void a_guest_that_boots_is_not_on_the_modelled_cpus(void)
{
    uint64_t now_ns = S;
    start_on_one_cpu(0);
    pass_together(&now_ns, S);
    vm.boot_limits.deadline_ns = 30 * S;
    vm_reset(&vm, now_ns);
    pass_together(&now_ns, S);
    uint64_t granted_ns = table.entry[1][0].granted_ns;
    pass_together(&now_ns, 10 * S);
    CHECK_EQUAL(table.entry[1][0].granted_ns, granted_ns);
    pass_together(&now_ns, 25 * S);
    CHECK_BETWEEN(table.entry[1][0].granted_ns - granted_ns, 2e9, 4e9);
    CHECK_EQUAL(slots[0].debt_ns, 0);
    stop();
}

static void a_halted_vcpu_leaves_its_modelled_cpu(void)
{
    uint64_t now_ns = S;
    start_on_one_cpu(0);
    pass_together(&now_ns, S);
    vcpu_halt(&vm, &vm.vcpus[1], now_ns);
    uint64_t before_ns = slots[0].granted_ns, owed_ns = 0;
    for (uint64_t end_ns = now_ns + S; now_ns < end_ns; now_ns += MS / 4) {
        owed_ns = owed_ns ? vcpu_still_owes(&vm.vcpus[0], now_ns) : 0;
        if (owed_ns)
            continue;
        run_to_tick(&vm.vcpus[0]);
        owed_ns = vcpu_tick(&vm, &vm.vcpus[0], false, now_ns);
    }
    CHECK_BETWEEN(slots[0].granted_ns - before_ns, 0.99e9, 1.0e9);
    vcpu_resume(&vm.vcpus[1], now_ns);
    CHECK_EQUAL(slots[1].debt_ns, 0);
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
    {"on half a modelled CPU a guest runs at half its clock", on_half_a_modelled_cpu_a_guest_runs_at_half_its_clock},
    {"beside a busy sibling a guest computes less", beside_a_busy_sibling_a_guest_computes_less_in_as_many_cycles},
    {"a busy sibling makes nobody wait longer for memory", a_busy_sibling_makes_nobody_wait_longer_for_memory},
    {"a guest that the host cannot run is in debt on modelled CPUs too",
     a_guest_that_the_host_cannot_run_is_in_debt_on_modelled_cpus_too},
    {"a guest that boots is not on the modelled CPUs", a_guest_that_boots_is_not_on_the_modelled_cpus},
    {"a halted vCPU leaves its modelled CPU", a_halted_vcpu_leaves_its_modelled_cpu},
    {NULL, NULL},
};
