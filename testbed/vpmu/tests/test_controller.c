// SPDX-License-Identifier: Apache-2.0
#include "controller.h"
#include "test.h"

static void a_price_rises_a_quarter_of_the_excess_and_falls_likewise(void)
{
    CHECK_EQUAL(controller_price(65536, 1000), 65536);
    CHECK_EQUAL(controller_price(65536, 2000), 81920);
    CHECK_EQUAL(controller_price(131072, 1000), 131072);
    CHECK_EQUAL(controller_price(131072, 600), 117964);
    CHECK_EQUAL(controller_price(65536, 0), 65536);          /* never below one */
    CHECK_EQUAL(controller_price(0, 0), 65536);
    CHECK_EQUAL(controller_price(65536, UINT64_MAX), 131072); /* nor by more than twice at once */
    CHECK_EQUAL(controller_price(UINT32_MAX, 5000), 64 * 65536);
}

static void close_windows(struct vpmu_mc *controller, int count, uint64_t reads, uint64_t writes)
{
    while (count--) {
        controller_add_reads(controller, reads);
        controller_add_writes(controller, writes);
        controller_close_window(controller, controller->window_start_ns + CONTROLLER_WINDOW_NS);
    }
}

static void closed_rows_cost_what_is_used_and_the_limit_what_is_needed(void)
{
    struct vpmu_mc controller = {.capacity_lines_per_s = 1000000};
    close_windows(&controller, 60, 5000, 0);
    CHECK_BETWEEN(controller_read_delay(&controller, 1000), 1490, 1500);
    close_windows(&controller, 60, 10000, 0);
    CHECK_BETWEEN(controller_read_delay(&controller, 1000), 1980, 2000);
    close_windows(&controller, 200, 20000, 0); /* who does not slow down pays ever more */
    CHECK_BETWEEN(controller_read_delay(&controller, 1000), 128000, 128000);
    close_windows(&controller, 60, 5000, 0);
    CHECK_BETWEEN(controller_read_delay(&controller, 1000), 1490, 1500);
}

static void reads_and_writes_use_one_bus_and_writes_their_buffers_too(void)
{
    struct vpmu_mc controller = {.capacity_lines_per_s = 1000000, .write_capacity_lines_per_s = 400000};
    close_windows(&controller, 40, 3000, 3000);
    CHECK_BETWEEN(controller.utilisation_permille, 595, 600);
    CHECK_BETWEEN(controller.write_utilisation_permille, 745, 750);
    CHECK_EQUAL(controller_write_delay(&controller, 25), 0);
    CHECK_EQUAL(controller.total_lines, 240000);
    CHECK_EQUAL(controller.total_written_lines, 120000);
    close_windows(&controller, 1, 0, 8000);
    CHECK_EQUAL(controller.write_price_x65536, 81920);
    CHECK_EQUAL(controller_write_delay(&controller, 1000), 250);
    CHECK_EQUAL(controller.price_x65536, CONTROLLER_PRICE_ONE);
}

static void a_window_closes_once_and_only_when_over(void)
{
    struct vpmu_mc controller = {.capacity_lines_per_s = 1000000, .latency_x256 = 256};
    controller_add_reads(&controller, 5000);
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
    CHECK_EQUAL(controller_read_delay(&controller, 100), 100);
    controller.latency_x256 = UINT32_MAX;
    CHECK_EQUAL(controller_read_delay(&controller, 100), 12800);
    controller_add_reads(&controller, UINT64_MAX);
    controller_close_window(&controller, CONTROLLER_WINDOW_NS);
    CHECK_EQUAL(controller_read_delay(&controller, 100), 100); /* no capacity known: never busy */
    controller.write_price_x65536 = UINT32_MAX;
    CHECK_EQUAL(controller_write_delay(&controller, 100), 6300);
    controller.write_price_x65536 = 1;
    CHECK_EQUAL(controller_write_delay(&controller, 100), 0);
}

const struct test controller_tests[] = {
    {"a price rises a quarter of the excess and falls likewise", a_price_rises_a_quarter_of_the_excess_and_falls_likewise},
    {"closed rows cost what is used, the limit what is needed", closed_rows_cost_what_is_used_and_the_limit_what_is_needed},
    {"reads and writes use one bus", reads_and_writes_use_one_bus_and_writes_their_buffers_too},
    {"a window closes once and only when over", a_window_closes_once_and_only_when_over},
    {"a pause is not smoothed", a_pause_is_not_smoothed},
    {"a clock read before the window opened is harmless", a_clock_read_before_the_window_opened_is_harmless},
    {"a spoilt file cannot stall a guest", a_spoilt_file_cannot_stall_a_guest},
    {NULL, NULL},
};
