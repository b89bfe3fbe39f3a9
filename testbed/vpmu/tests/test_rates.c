// SPDX-License-Identifier: Apache-2.0
#include "rates.h"

#include <math.h>

#include "test.h"

static void rates_are_those_of_the_interval(void)
{
    struct vpmu_slot before = {.instructions = 1000, .cycles = 500, .llc_references = 10, .debt_ns = 5};
    struct vpmu_slot after = {
        .instructions = 2001000, .cycles = 8000500, .llc_references = 40010, .llc_misses_local = 6000,
        .llc_misses_remote = 2000, .shadow_llc_misses = 4000, .paced_ns = 400000000, .debt_ns = 20000005,
        .write_backs = 2000, .granted_ns = 500000000, .run_delay_ns = 300000000, .throttled_ns = 200000000,
    };
    struct rates rates = rates_between(&before, &after, 1000000000);
    CHECK_BETWEEN(rates.mips, 1.999, 2.001);
    CHECK_BETWEEN(rates.l2_mpki, 19.99, 20.01);
    CHECK_BETWEEN(rates.llc_mpki, 3.99, 4.01);
    CHECK_BETWEEN(rates.memory_factor, 0.199, 0.201);
    CHECK_BETWEEN(rates.shadow_memory_factor, 0.099, 0.101);
    CHECK_BETWEEN(rates.local_ratio, 0.749, 0.751);
    CHECK_BETWEEN(rates.ipc, 0.249, 0.251);
    CHECK_BETWEEN(rates.paced_ratio, 0.399, 0.401);
    CHECK_BETWEEN(rates.debt_ratio, 0.019, 0.021);
    CHECK_BETWEEN(rates.write_mpki, 0.99, 1.01);
    CHECK_BETWEEN(rates.granted_ratio, 0.499, 0.501);
    CHECK_BETWEEN(rates.run_delay_ratio, 0.299, 0.301);
    CHECK_BETWEEN(rates.throttled_ratio, 0.199, 0.201);
}

static void an_idle_interval_has_no_ratios(void)
{
    struct vpmu_slot slot = {.instructions = 1000, .cycles = 500};
    struct rates rates = rates_between(&slot, &slot, 1000000000);
    CHECK_EQUAL(rates.mips, 0);
    CHECK(isnan(rates.memory_factor) && isnan(rates.ipc) && isnan(rates.local_ratio));
}

const struct test rates_tests[] = {
    {"rates are those of the interval", rates_are_those_of_the_interval},
    {"an idle interval has no ratios", an_idle_interval_has_no_ratios},
    {NULL, NULL},
};
