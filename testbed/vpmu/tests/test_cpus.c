// SPDX-License-Identifier: Apache-2.0
/* Modelled CPUs, with a clock moved by hand: who gets how much. */
#include "cpus.h"

#include <stdlib.h>
#include <string.h>

#include "cpumask.h"
#include "test.h"

#define MS 1000000ull
#define S 1000000000ull
#define MAX_SEATS 16

static struct vpmu_cpus *table;
static struct cpus_seat seats[MAX_SEATS];
static bool is_idle[MAX_SEATS];
static int seat_count;
static uint64_t now;

static void begin(uint32_t cpu_count)
{
    free(table);
    table = calloc(1, sizeof *table);
    table->cpu_count = cpu_count;
    seat_count = 0;
    memset(is_idle, 0, sizeof is_idle);
    now = S;
}

static void end(void)
{
    free(table);
    table = NULL;
}

static struct cpus_claim claim_on(const char *cpus)
{
    return (struct cpus_claim){
        .allowed = cpumask_parse(cpus, table->cpu_count), .weight = 1024, .vm_weight = 1024, .vm_group = "/vm"};
}

static struct cpus_seat *seat_of(uint32_t vm_id, uint32_t index, const struct cpus_claim *claim)
{
    struct cpus_seat *seat = &seats[seat_count++];
    *seat = cpus_seat(table, vm_id, index, now);
    cpus_claim(seat, claim);
    cpus_run(seat, now);
    return seat;
}

/* A VM of one vCPU. */
static struct cpus_seat *vm_on(uint32_t vm_id, const char *cpus, uint32_t weight)
{
    struct cpus_claim claim = claim_on(cpus);
    claim.vm_weight = weight;
    cpus_join(table, vm_id, 1);
    return seat_of(vm_id, 0, &claim);
}

static struct cpus_seat *vm_with_quota(uint32_t vm_id, const char *cpus, uint32_t quota_us)
{
    struct cpus_claim claim = claim_on(cpus);
    claim.quota_us = quota_us;
    claim.period_us = 100000;
    cpus_join(table, vm_id, 1);
    return seat_of(vm_id, 0, &claim);
}

/* All that want to run say so every half millisecond. */
static void pass(uint64_t ns)
{
    for (uint64_t until = now + ns; now < until; now += MS / 2)
        for (int i = 0; i < seat_count; i++)
            if (!is_idle[i])
                cpus_run(&seats[i], now);
    cpus_advance(table, now);
}

static double granted_ms(const struct cpus_seat *seat)
{
    return (double)seat->entry->granted_ns / 1e6;
}

static double delay_ms(const struct cpus_seat *seat)
{
    return (double)seat->entry->delay_ns / 1e6;
}

static double throttled_ms(const struct cpus_seat *seat)
{
    return (double)cpus_throttled_ns(seat->entry) / 1e6;
}

static void a_vcpu_alone_gets_all(void)
{
    begin(2);
    struct cpus_seat *one = vm_on(1, "0", 1024);
    pass(S);
    CHECK_BETWEEN(granted_ms(one), 998, 1000);
    CHECK_EQUAL(delay_ms(one), 0);
    CHECK_BETWEEN((double)one->clock_ns / 1e6, 998, 1000);
    end();
}

static void two_on_one_cpu_have_half_each_and_wait_for_the_rest(void)
{
    begin(2);
    struct cpus_seat *one = vm_on(1, "0", 1024), *other = vm_on(2, "0", 1024);
    pass(3 * S);
    CHECK_BETWEEN(granted_ms(one), 1490, 1510);
    CHECK_BETWEEN(granted_ms(other), 1490, 1510);
    CHECK_BETWEEN(granted_ms(one) + delay_ms(one), 2998, 3000);
    CHECK_EQUAL(throttled_ms(one), 0);
    CHECK_BETWEEN((double)table->cpu[0].busy_ns / 1e6, 2998, 3000);
    CHECK_EQUAL(table->cpu[1].busy_ns, 0);
    end();
}

static void weights_share_a_cpu(void)
{
    begin(1);
    struct cpus_seat *heavy = vm_on(1, "0", 2048), *light = vm_on(2, "0", 1024);
    pass(3 * S);
    CHECK_BETWEEN(granted_ms(heavy), 1990, 2010);
    CHECK_BETWEEN(granted_ms(light), 990, 1010);
    end();
}

static void a_vms_weight_is_shared_by_its_vcpus(void)
{
    begin(1);
    struct cpus_claim claim = claim_on("0");
    cpus_join(table, 1, 2);
    struct cpus_seat *first = seat_of(1, 0, &claim), *second = seat_of(1, 1, &claim);
    struct cpus_seat *other = vm_on(2, "0", 1024);
    pass(4 * S);
    CHECK_BETWEEN(granted_ms(first), 990, 1010);
    CHECK_BETWEEN(granted_ms(second), 990, 1010);
    CHECK_BETWEEN(granted_ms(other), 1990, 2010);
    end();
}

static void a_vcpu_that_halts_leaves_its_part_to_its_sibling(void)
{
    begin(1);
    struct cpus_claim claim = claim_on("0");
    cpus_join(table, 1, 2);
    struct cpus_seat *first = seat_of(1, 0, &claim), *second = seat_of(1, 1, &claim);
    struct cpus_seat *other = vm_on(2, "0", 1024);
    cpus_halt(second, now);
    is_idle[1] = true;
    pass(2 * S);
    CHECK_BETWEEN(granted_ms(first), 990, 1010);
    CHECK_BETWEEN(granted_ms(other), 990, 1010);
    CHECK_EQUAL(granted_ms(second), 0);
    end();
}

static void two_that_may_choose_part(void)
{
    begin(2);
    struct cpus_seat *one = vm_on(1, "0-1", 1024), *other = vm_on(2, "0-1", 1024);
    pass(S);
    CHECK_BETWEEN(granted_ms(one) + granted_ms(other), 1990, 2000);
    CHECK(cpus_current(one) != cpus_current(other));
    end();
}

static void a_pin_is_honoured_at_once_on_cpus_beyond_64_too(void)
{
    begin(200);
    struct cpus_seat *one = vm_on(1, "3", 1024), *other = vm_on(2, "199", 1024);
    pass(100 * MS);
    CHECK_EQUAL(cpus_current(one), 3);
    CHECK_EQUAL(cpus_current(other), 199);
    struct cpus_claim claim = claim_on("199");
    cpus_claim(one, &claim);
    pass(2 * MS);
    CHECK_EQUAL(cpus_current(one), 199);
    double before = granted_ms(one);
    pass(S);
    CHECK_BETWEEN(granted_ms(one) - before, 490, 510);
    end();
}

static void three_on_two_cpus_take_turns(void)
{
    begin(2);
    struct cpus_seat *one = vm_on(1, "0-1", 1024), *two = vm_on(2, "0-1", 1024), *three = vm_on(3, "0-1", 1024);
    pass(10 * S);
    CHECK_BETWEEN(granted_ms(one), 6300, 7000);
    CHECK_BETWEEN(granted_ms(two), 6300, 7000);
    CHECK_BETWEEN(granted_ms(three), 6300, 7000);
    end();
}

static void a_quota_alone_throttles_and_waits_for_nobody(void)
{
    begin(1);
    struct cpus_seat *capped = vm_with_quota(1, "0", 30000);
    pass(3 * S);
    CHECK_BETWEEN(granted_ms(capped), 890, 931);
    CHECK_BETWEEN(throttled_ms(capped), 2069, 2110);
    CHECK_EQUAL(delay_ms(capped), 0);
    CHECK_BETWEEN(capped->entry->quota.throttled_periods, 29, 31);
    CHECK_BETWEEN(capped->entry->quota.periods, 29, 31);
    end();
}

static void who_is_throttled_sleeps_until_its_next_period(void)
{
    begin(1);
    struct cpus_seat *capped = vm_with_quota(1, "0", 1000);
    pass(2 * MS);
    uint64_t left_ns = capped->entry->quota.period_start_ns + 100 * MS - now;
    CHECK(left_ns > 90 * MS);
    CHECK_EQUAL(cpus_patience_ns(capped, MS / 2, now), left_ns);
    CHECK(cpus_patience_ns(capped, MS / 2, now + left_ns) <= MS); /* nobody has looked since */
    capped->entry->quota = (struct vpmu_quota){0};
    table->vm[1].quota = (struct vpmu_quota){
        .quota_us = 1000, .period_us = 100000, .period_start_ns = now, .is_throttled = 1};
    CHECK_EQUAL(cpus_patience_ns(capped, MS / 2, now), 100 * MS);
    end();
}

static void what_a_quota_leaves_is_the_others(void)
{
    begin(1);
    struct cpus_seat *capped = vm_with_quota(1, "0", 30000), *other = vm_on(2, "0", 1024);
    pass(3 * S);
    CHECK_BETWEEN(granted_ms(capped), 890, 931);
    CHECK_BETWEEN(granted_ms(other), 2069, 2110);
    CHECK_BETWEEN(granted_ms(capped) + delay_ms(capped) + throttled_ms(capped), 2998, 3000);
    end();
}

static void after_a_quota_nothing_is_made_up_for(void)
{
    begin(1);
    struct cpus_seat *capped = vm_with_quota(1, "0", 30000), *other = vm_on(2, "0", 1024);
    pass(3 * S);
    struct cpus_claim claim = claim_on("0");
    cpus_claim(capped, &claim);
    double before = granted_ms(other);
    pass(S);
    CHECK_BETWEEN(granted_ms(other) - before, 490, 510);
    end();
}

static void a_vms_quota_is_the_sum_of_its_vcpus(void)
{
    begin(4);
    struct cpus_claim claim = claim_on("0-3");
    claim.vm_quota_us = 120000; /* 1.2 CPUs of the 3 that it could use */
    claim.vm_period_us = 100000;
    cpus_join(table, 1, 3);
    struct cpus_seat *first = seat_of(1, 0, &claim);
    seat_of(1, 1, &claim);
    seat_of(1, 2, &claim);
    pass(5 * S);
    CHECK_BETWEEN(granted_ms(&seats[0]) + granted_ms(&seats[1]) + granted_ms(&seats[2]), 5900, 6130);
    CHECK_BETWEEN(granted_ms(first), 1900, 2100);
    CHECK_EQUAL(delay_ms(first), 0);
    CHECK_EQUAL(first->entry->quota.throttled_ns, 0);
    CHECK_EQUAL(table->vm[1].quota.throttled_ns, seats[0].entry->vm_throttled_ns + seats[1].entry->vm_throttled_ns +
                                                     seats[2].entry->vm_throttled_ns);
    CHECK_BETWEEN(table->vm[1].quota.throttled_periods, 49, 51);
    end();
}

static void who_halts_gives_the_cpu_back(void)
{
    begin(1);
    struct cpus_seat *one = vm_on(1, "0", 1024), *other = vm_on(2, "0", 1024);
    pass(S);
    cpus_halt(other, now);
    is_idle[1] = true;
    double before = granted_ms(one);
    pass(S);
    CHECK_BETWEEN(granted_ms(one) - before, 998, 1001);
    CHECK_BETWEEN(granted_ms(other), 490, 510);
    end();
}

static void who_wakes_up_has_no_credit_for_having_slept(void)
{
    begin(1);
    struct cpus_seat *one = vm_on(1, "0", 1024), *other = vm_on(2, "0", 1024);
    pass(100 * MS);
    cpus_halt(other, now);
    is_idle[1] = true;
    pass(3 * S);
    is_idle[1] = false;
    double before = granted_ms(one);
    pass(S);
    CHECK_BETWEEN(granted_ms(one) - before, 485, 510);
    end();
}

static void who_is_silent_claims_nothing_and_calls_it_debt(void)
{
    begin(1);
    struct cpus_seat *one = vm_on(1, "0", 1024), *silent = vm_on(2, "0", 1024);
    is_idle[1] = true; /* says nothing, not even that it halts */
    pass(S);
    CHECK_BETWEEN(granted_ms(one), 945, 960);
    CHECK_BETWEEN(granted_ms(silent), 45, 55);
    CHECK_BETWEEN((double)cpus_run(silent, now) / 1e6, 899, 901);
    CHECK_EQUAL(cpus_run(silent, now + MS), 0);
    end();
}

static void who_the_kernel_throttles_keeps_its_claim(void)
{
    begin(1);
    struct cpus_seat *capped = vm_with_quota(1, "0", 1000), *other = vm_on(2, "0", 1024);
    is_idle[0] = true; /* its thread overran its real quota */
    pass(600 * MS);
    CHECK_BETWEEN(granted_ms(capped), 5, 7);
    CHECK_BETWEEN(granted_ms(other), 592, 596);
    CHECK_EQUAL(cpus_run(capped, now), 0);
    end();
}

static void who_is_late_turns_nothing_back(void)
{
    begin(1);
    struct cpus_seat *one = vm_on(1, "0", 1024);
    for (int round = 0; round < 10; round++) {
        pass(100 * MS);
        cpus_advance(table, now - 90 * MS); /* its thread was throttled after it looked at the clock */
    }
    CHECK_BETWEEN(granted_ms(one), 998, 1001);
    end();
}

static void a_vm_that_left_claims_nothing(void)
{
    begin(1);
    struct cpus_seat *one = vm_on(1, "0", 1024);
    vm_on(2, "0", 1024);
    cpus_leave(table, 2);
    pass(S);
    CHECK_BETWEEN(granted_ms(one), 998, 1000);
    end();
}

static void a_dead_or_stopped_holder_is_taken_over(void)
{
    begin(1);
    struct cpus_seat *one = vm_on(1, "0", 1024);
    pass(MS);
    table->lock_ns = now;
    pass(S);
    CHECK_BETWEEN(granted_ms(one), 890, 1001);
    table->lock_ns = now + 3600 * S; /* a moment that has not been */
    double before = granted_ms(one);
    pass(S);
    CHECK_BETWEEN(granted_ms(one) - before, 998, 1001);
    end();
}

static void a_table_that_was_abandoned_makes_up_for_little(void)
{
    begin(1);
    struct cpus_seat *one = vm_on(1, "0", 1024);
    pass(S);
    double before = granted_ms(one);
    now += 3600 * S;
    cpus_run(one, now);
    CHECK_BETWEEN(granted_ms(one) - before, 0, 200);
    table->advanced_ns = now + 3600 * S; /* a moment that has not been */
    before = granted_ms(one);
    pass(S);
    CHECK_BETWEEN(granted_ms(one) - before, 990, 1001);
    end();
}

/* Whatever stands in the table: no crash (the sanitizers look), and the clock of a vCPU stays within reason. */
static void a_spoilt_table_harms_nobody(void)
{
    begin(4);
    struct cpus_seat *one = vm_on(1, "0-3", 1024);
    vm_on(2, "0-3", 1024);
    pass(100 * MS);
    uint32_t state = 1;
    for (int round = 0; round < 300; round++) {
        for (int i = 0; i < 64; i++) {
            state = state * 1664525 + 1013904223;
            uint8_t *spoilt = round % 2 ? (uint8_t *)table->entry[1] : (uint8_t *)table + 24;
            size_t reach = round % 2 ? 512 : sizeof *table - 24;
            spoilt[(size_t)state * 7919 % reach] = (uint8_t)(state >> 24);
        }
        uint64_t before = one->clock_ns;
        pass(2 * MS);
        CHECK(one->clock_ns >= before && one->clock_ns - before <= 210 * MS);
        CHECK(cpus_current(one) >= 0 && (uint32_t)cpus_current(one) < VPMU_MAX_MODELLED_CPUS);
        CHECK(cpus_patience_ns(one, MS, now) <= S);
    }
    end();
}

static double beside_ms(const struct cpus_seat *seat)
{
    return (double)seat->entry->beside_sibling_ns / 1e6;
}

/* CPUs 0 and 1 are a core, and so are 2 and 3. */
static void begin_with_two_cores(void)
{
    begin(4);
    cpus_set_siblings(table, 0, 1);
    cpus_set_siblings(table, 3, 2);
}

static void the_siblings_of_a_core_know_how_long_both_were_busy(void)
{
    begin_with_two_cores();
    struct cpus_seat *one = vm_on(1, "0", 1024), *other = vm_on(2, "1", 1024), *apart = vm_on(3, "2", 1024);
    pass(S);
    CHECK_BETWEEN(beside_ms(one), 998, 1000);
    CHECK_BETWEEN(beside_ms(other), 998, 1000);
    CHECK_EQUAL(one->beside_permille, 1000);
    CHECK_EQUAL(apart->beside_permille, 0);
    CHECK_BETWEEN(granted_ms(one), 998, 1000); /* neither waits for the other */
    CHECK_EQUAL(delay_ms(one), 0);
    is_idle[1] = true;
    cpus_halt(other, now);
    pass(S);
    CHECK_BETWEEN(beside_ms(one), 998, 1002);
    CHECK_EQUAL(one->beside_permille, 0);
    end();
}

static void a_free_core_comes_before_a_free_sibling(void)
{
    begin_with_two_cores();
    vm_on(1, "0", 1024);
    struct cpus_seat *other = vm_on(2, "0-3", 1024);
    pass(S);
    CHECK(cpus_current(other) >= 2);
    CHECK_BETWEEN(beside_ms(other), 0, 1);
    end();
}

static void who_shares_a_core_goes_to_one_that_falls_idle_and_else_stays(void)
{
    begin_with_two_cores();
    vm_on(1, "0", 1024);
    struct cpus_seat *there = vm_on(2, "2", 1024), *other = vm_on(3, "1,3", 1024);
    pass(S);
    CHECK_BETWEEN(beside_ms(other), 990, 1000);
    int before = cpus_current(other);
    pass(S);
    CHECK_EQUAL(cpus_current(other), before);
    is_idle[1] = true;
    cpus_halt(there, now);
    pass(S);
    CHECK_EQUAL(cpus_current(other), 3);
    CHECK_BETWEEN(beside_ms(other), 1990, 2110);
    end();
}

const struct test cpus_tests[] = {
    {"a vCPU alone gets all", a_vcpu_alone_gets_all},
    {"two on one CPU have half each", two_on_one_cpu_have_half_each_and_wait_for_the_rest},
    {"weights share a CPU", weights_share_a_cpu},
    {"a VM's weight is shared by its vCPUs", a_vms_weight_is_shared_by_its_vcpus},
    {"a vCPU that halts leaves its part to its sibling", a_vcpu_that_halts_leaves_its_part_to_its_sibling},
    {"two that may choose part", two_that_may_choose_part},
    {"a pin is honoured at once", a_pin_is_honoured_at_once_on_cpus_beyond_64_too},
    {"three on two CPUs take turns", three_on_two_cpus_take_turns},
    {"a quota alone throttles and waits for nobody", a_quota_alone_throttles_and_waits_for_nobody},
    {"who is throttled sleeps until its next period", who_is_throttled_sleeps_until_its_next_period},
    {"what a quota leaves is the others'", what_a_quota_leaves_is_the_others},
    {"after a quota nothing is made up for", after_a_quota_nothing_is_made_up_for},
    {"a VM's quota is the sum of its vCPUs", a_vms_quota_is_the_sum_of_its_vcpus},
    {"who halts gives the CPU back", who_halts_gives_the_cpu_back},
    {"who wakes up has no credit for having slept", who_wakes_up_has_no_credit_for_having_slept},
    {"who is silent claims nothing and calls it debt", who_is_silent_claims_nothing_and_calls_it_debt},
    {"who the kernel throttles keeps its claim", who_the_kernel_throttles_keeps_its_claim},
    {"who is late turns nothing back", who_is_late_turns_nothing_back},
    {"a VM that left claims nothing", a_vm_that_left_claims_nothing},
    {"a dead or stopped holder is taken over", a_dead_or_stopped_holder_is_taken_over},
    {"a table that was abandoned makes up for little", a_table_that_was_abandoned_makes_up_for_little},
    {"a spoilt table harms nobody", a_spoilt_table_harms_nobody},
    {"the siblings of a core know how long both were busy", the_siblings_of_a_core_know_how_long_both_were_busy},
    {"a free core comes before a free sibling", a_free_core_comes_before_a_free_sibling},
    {"who shares a core goes to one that falls idle", who_shares_a_core_goes_to_one_that_falls_idle_and_else_stays},
    {NULL, NULL},
};
