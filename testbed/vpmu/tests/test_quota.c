// SPDX-License-Identifier: Apache-2.0
#include "quota.h"

#include "test.h"

#define MS 1000000ull

/* Runs whenever it may, in steps; returns the time it had. */
static uint64_t run(struct vpmu_quota *quota, uint64_t begin_ms, uint64_t end_ms, uint64_t step_ms)
{
    uint64_t had_ms = 0;
    for (uint64_t at_ms = begin_ms; at_ms < end_ms; at_ms += step_ms) {
        if (quota_is_used_up(quota, at_ms * MS))
            continue;
        quota_charge(quota, step_ms * MS);
        had_ms += step_ms;
    }
    return had_ms;
}

static void each_period_has_its_quota(void)
{
    struct vpmu_quota quota = {.quota_us = 30000, .period_us = 100000};
    CHECK_EQUAL(run(&quota, 1000, 2000, 1), 300);
    CHECK_EQUAL(quota.periods, 10);
    CHECK_EQUAL(quota.throttled_periods, 10);
}

static void an_overshoot_is_paid_from_the_next_period(void)
{
    struct vpmu_quota quota = {.quota_us = 30000, .period_us = 100000};
    CHECK_BETWEEN(run(&quota, 1000, 11000, 20), 2980, 3020); /* steps of 20 ms do not divide 30 */
}

static void what_was_not_used_is_not_saved(void)
{
    struct vpmu_quota quota = {.quota_us = 30000, .period_us = 100000};
    run(&quota, 1000, 1010, 1);
    CHECK_EQUAL(run(&quota, 1500, 1600, 1), 30);
    CHECK_EQUAL(quota.periods, 2); /* periods in which nobody wanted to run do not count */
    CHECK_EQUAL(quota.throttled_periods, 1);
}

static void a_quota_above_the_period_is_for_several_vcpus(void)
{
    struct vpmu_quota quota = {.quota_us = 150000, .period_us = 100000};
    CHECK_EQUAL(run(&quota, 1000, 2000, 1), 1000);
    CHECK_EQUAL(quota.throttled_periods, 0);
}

static void without_a_quota_nothing_is_used_up(void)
{
    struct vpmu_quota none = {.quota_us = 0, .period_us = 100000}, odd = {.quota_us = 5, .period_us = 0};
    CHECK_EQUAL(run(&none, 1000, 2000, 1), 1000);
    CHECK_EQUAL(run(&odd, 1000, 2000, 1), 1000);
    CHECK_EQUAL(none.periods, 0);
}

static void a_spoilt_quota_ends_within_a_period(void)
{
    struct vpmu_quota quota = {.quota_us = 30000, .period_us = 100000, .period_start_ns = UINT64_MAX - 5};
    CHECK_EQUAL(run(&quota, 1000, 2000, 1), 300);
    quota.left_ns = INT64_MIN;
    CHECK_BETWEEN(run(&quota, 2000, 3000, 1), 240, 300);
    quota.left_ns = INT64_MAX;
    CHECK_EQUAL(run(&quota, 3000, 4000, 1), 300);
}

const struct test quota_tests[] = {
    {"each period has its quota", each_period_has_its_quota},
    {"an overshoot is paid from the next period", an_overshoot_is_paid_from_the_next_period},
    {"what was not used is not saved", what_was_not_used_is_not_saved},
    {"a quota above the period is for several vCPUs", a_quota_above_the_period_is_for_several_vcpus},
    {"without a quota nothing is used up", without_a_quota_nothing_is_used_up},
    {"a spoilt quota ends within a period", a_spoilt_quota_ends_within_a_period},
    {NULL, NULL},
};
