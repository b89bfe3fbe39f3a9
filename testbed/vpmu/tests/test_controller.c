// SPDX-License-Identifier: Apache-2.0
#include "controller.h"
#include "test.h"

static void latency_follows_the_queue(void)
{
    CHECK_EQUAL(controller_latency_x256(0), 256);
    CHECK_EQUAL(controller_latency_x256(500), 384);
    CHECK_EQUAL(controller_latency_x256(800), 768);
    CHECK_EQUAL(controller_latency_x256(950), 2688);
    CHECK_EQUAL(controller_latency_x256(1000), 2688); /* bounded */
    CHECK_EQUAL(controller_latency_x256(UINT64_MAX), 2688);
}

static void a_window_closes_once_and_only_when_over(void)
{
    struct vpmu_mc controller = {.capacity_lines_per_s = 1000000, .latency_x256 = 256};
    controller_add(&controller, 5000);
    controller_close_window(&controller, CONTROLLER_WINDOW_NS - 1);
    CHECK_EQUAL(controller.window_lines, 5000);
    controller_close_window(&controller, CONTROLLER_WINDOW_NS);
    CHECK_EQUAL(controller.utilisation_permille, 125); /* a quarter of 500, the rest was idle before */
    controller_close_window(&controller, CONTROLLER_WINDOW_NS);
    CHECK_EQUAL(controller.utilisation_permille, 125);
    CHECK_EQUAL(controller.total_lines, 5000);
}

static void a_pause_is_not_smoothed(void)
{
    struct vpmu_mc controller = {.capacity_lines_per_s = 1000000, .utilisation_permille = 900};
    controller_close_window(&controller, 1000000000);
    CHECK_EQUAL(controller.utilisation_permille, 0);
}

static void a_clock_read_before_the_window_opened_is_harmless(void)
{
    struct vpmu_mc controller = {.capacity_lines_per_s = 1000000, .window_start_ns = 500, .window_lines = 7};
    controller_close_window(&controller, 400);
    CHECK_EQUAL(controller.window_lines, 7);
}

static void a_spoilt_file_cannot_stall_a_guest(void)
{
    struct vpmu_mc controller = {.latency_x256 = 0};
    CHECK_EQUAL(controller_delay(&controller, 100), 100);
    controller.latency_x256 = UINT32_MAX;
    CHECK_EQUAL(controller_delay(&controller, 100), 1050);
    controller_add(&controller, UINT64_MAX);
    controller_close_window(&controller, CONTROLLER_WINDOW_NS);
    CHECK_EQUAL(controller_delay(&controller, 100), 100); /* no capacity known: never busy */
}

const struct test controller_tests[] = {
    {"latency follows the queue", latency_follows_the_queue},
    {"a window closes once and only when over", a_window_closes_once_and_only_when_over},
    {"a pause is not smoothed", a_pause_is_not_smoothed},
    {"a clock read before the window opened is harmless", a_clock_read_before_the_window_opened_is_harmless},
    {"a spoilt file cannot stall a guest", a_spoilt_file_cannot_stall_a_guest},
    {NULL, NULL},
};
