// SPDX-License-Identifier: Apache-2.0
#include "pace.h"
#include "test.h"

#define MS 1000000ull
#define S 1000000000ull
#define MHZ 60u
#define CYCLES_PER_MS 60000ull

static struct pace anchored_at(uint64_t now_ns)
{
    struct pace pace = {0};
    pace_step(&pace, MHZ, now_ns, 0);
    return pace;
}

static void a_guest_ahead_sleeps_for_the_difference(void)
{
    struct pace pace = anchored_at(S);
    struct pace_step step = pace_step(&pace, MHZ, S + MS, 3 * CYCLES_PER_MS);
    CHECK_EQUAL(step.sleep_ns, 2 * MS);
    CHECK_EQUAL(step.debt_ns, 0);
}

static void a_little_ahead_is_not_worth_a_sleep_but_stays_owed(void)
{
    struct pace pace = anchored_at(S);
    CHECK_EQUAL(pace_step(&pace, MHZ, S + MS, CYCLES_PER_MS + 600).sleep_ns, 0);
    CHECK_EQUAL(pace_step(&pace, MHZ, S + MS, 2 * CYCLES_PER_MS + 600).sleep_ns, MS + 10000);
}

static void a_long_sleep_comes_in_parts(void)
{
    struct pace pace = anchored_at(S);
    CHECK_EQUAL(pace_step(&pace, MHZ, S, 50 * CYCLES_PER_MS).sleep_ns, PACE_MAX_SLEEP_NS);
    CHECK_EQUAL(pace_step(&pace, MHZ, S + 20 * MS, 50 * CYCLES_PER_MS).sleep_ns, PACE_MAX_SLEEP_NS);
    CHECK_EQUAL(pace_step(&pace, MHZ, S + 40 * MS, 50 * CYCLES_PER_MS).sleep_ns, 10 * MS);
}

static void a_late_guest_may_catch_up_a_little(void)
{
    struct pace pace = anchored_at(S);
    CHECK_EQUAL(pace_step(&pace, MHZ, S + 90 * MS, CYCLES_PER_MS).debt_ns, 0);
    /* ... and is on time again without having slept */
    struct pace_step step = pace_step(&pace, MHZ, S + 95 * MS, 95 * CYCLES_PER_MS);
    CHECK_EQUAL(step.sleep_ns + step.debt_ns, 0);
}

static void what_is_more_becomes_debt_once(void)
{
    struct pace pace = anchored_at(S);
    CHECK_EQUAL(pace_step(&pace, MHZ, S + 300 * MS, 50 * CYCLES_PER_MS).debt_ns, 150 * MS);
    CHECK_EQUAL(pace_step(&pace, MHZ, S + 300 * MS, 50 * CYCLES_PER_MS).debt_ns, 0);
    /* From now on it owes 100 ms of catching up, no more: it cannot run 250 ms at full speed. */
    CHECK_EQUAL(pace_step(&pace, MHZ, S + 300 * MS, 151 * CYCLES_PER_MS).sleep_ns, MS);
}

static void idle_time_is_no_credit_and_no_debt(void)
{
    struct pace pace = anchored_at(S);
    pace_resume(&pace, 10 * S, CYCLES_PER_MS);
    struct pace_step step = pace_step(&pace, MHZ, 10 * S + MS, 3 * CYCLES_PER_MS);
    CHECK_EQUAL(step.sleep_ns, MS);
    CHECK_EQUAL(step.debt_ns, 0);
}

static void time_owed_outlives_a_short_halt(void)
{
    struct pace pace = anchored_at(S);
    pace_resume(&pace, S + MS, 5 * CYCLES_PER_MS); /* a burst of 5 ms, halted after 1 ms */
    CHECK_EQUAL(pace_step(&pace, MHZ, S + MS, 5 * CYCLES_PER_MS).sleep_ns, 4 * MS);
}

static void zero_mhz_never_sleeps(void)
{
    struct pace pace = anchored_at(S);
    struct pace_step step = pace_step(&pace, 0, S, 1000 * CYCLES_PER_MS);
    CHECK_EQUAL(step.sleep_ns + step.debt_ns, 0);
    pace_resume(&pace, 2 * S, 1000 * CYCLES_PER_MS);
    CHECK(!pace.is_anchored);
}

static void another_mhz_starts_anew(void)
{
    struct pace pace = anchored_at(S);
    CHECK_EQUAL(pace_step(&pace, 30, S + MS, 100 * CYCLES_PER_MS).sleep_ns, 0);
    CHECK_EQUAL(pace_step(&pace, 30, S + MS, 101 * CYCLES_PER_MS).sleep_ns, 2 * MS);
}

static void a_year_keeps_its_precision(void)
{
    const uint64_t year_s = 366 * 86400;
    struct pace pace = anchored_at(S);
    struct pace_step step = {0, 0};
    for (uint64_t hour = 1; hour <= year_s / 3600; hour++)
        step = pace_step(&pace, 10000, S + hour * 3600 * S, hour * 3600 * S * 10);
    CHECK_EQUAL(step.sleep_ns + step.debt_ns, 0);
    CHECK_EQUAL(pace_step(&pace, 10000, S + year_s * S, (year_s * S + 2 * MS) * 10).sleep_ns, 2 * MS);
}

const struct test pace_tests[] = {
    {"a guest ahead sleeps for the difference", a_guest_ahead_sleeps_for_the_difference},
    {"a little ahead is not worth a sleep but stays owed", a_little_ahead_is_not_worth_a_sleep_but_stays_owed},
    {"a long sleep comes in parts", a_long_sleep_comes_in_parts},
    {"a late guest may catch up a little", a_late_guest_may_catch_up_a_little},
    {"what is more becomes debt once", what_is_more_becomes_debt_once},
    {"idle time is no credit and no debt", idle_time_is_no_credit_and_no_debt},
    {"time owed outlives a short halt", time_owed_outlives_a_short_halt},
    {"zero MHz never sleeps", zero_mhz_never_sleeps},
    {"another MHz starts anew", another_mhz_starts_anew},
    {"a year keeps its precision", a_year_keeps_its_precision},
    {NULL, NULL},
};
