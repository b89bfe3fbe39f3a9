// SPDX-License-Identifier: Apache-2.0
#include "boot.h"
#include "test.h"

#define S 1000000000ull

static const struct boot_limits LIMITS = {.deadline_ns = 30 * S, .user_instructions = 50000000};

static void firmware_is_not_user_space(void)
{
    struct boot boot = {.started_ns = S};
    boot_observe(&boot, false, 900000000); /* boot loader and decompression, at low addresses */
    CHECK(!boot_is_over(&boot, &LIMITS, 2 * S));
}

static void user_space_after_the_kernel_ends_the_boot(void)
{
    struct boot boot = {.started_ns = S};
    boot_observe(&boot, true, 900000000);
    CHECK(!boot_is_over(&boot, &LIMITS, 2 * S));
    boot_observe(&boot, false, 49999999);
    CHECK(!boot_is_over(&boot, &LIMITS, 2 * S));
    boot_observe(&boot, false, 1);
    CHECK(boot_is_over(&boot, &LIMITS, 2 * S));
}

static void the_deadline_ends_it_anyway(void)
{
    struct boot boot = {.started_ns = S};
    CHECK(!boot_is_over(&boot, &LIMITS, 31 * S - 1));
    CHECK(boot_is_over(&boot, &LIMITS, 31 * S));
}

static void without_a_user_limit_only_the_deadline_counts(void)
{
    struct boot boot = {.started_ns = S, .kernel_instructions = 900000000, .user_instructions = 900000000};
    struct boot_limits limits = {.deadline_ns = 30 * S, .user_instructions = 0};
    CHECK(!boot_is_over(&boot, &limits, 2 * S));
    CHECK(boot_is_over(&boot, &limits, 31 * S));
}

const struct test boot_tests[] = {
    {"firmware is not user space", firmware_is_not_user_space},
    {"user space after the kernel ends the boot", user_space_after_the_kernel_ends_the_boot},
    {"the deadline ends it anyway", the_deadline_ends_it_anyway},
    {"without a user limit only the deadline counts", without_a_user_limit_only_the_deadline_counts},
    {NULL, NULL},
};
