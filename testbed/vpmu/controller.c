// SPDX-License-Identifier: Apache-2.0
#include "controller.h"

#include <stdbool.h>

#define MAX_PERMILLE 1000000ull

static uint64_t load64(const uint64_t *field)
{
    return __atomic_load_n(field, __ATOMIC_RELAXED);
}

static uint32_t load32(const uint32_t *field)
{
    return __atomic_load_n(field, __ATOMIC_RELAXED);
}

static uint64_t between(uint64_t number, uint64_t least, uint64_t most)
{
    return number < least ? least : number < most ? number : most;
}

void controller_add_reads(struct vpmu_mc *controller, uint64_t lines)
{
    __atomic_fetch_add(&controller->window_lines, lines, __ATOMIC_RELAXED);
}

void controller_add_writes(struct vpmu_mc *controller, uint64_t lines)
{
    __atomic_fetch_add(&controller->window_lines, lines, __ATOMIC_RELAXED);
    __atomic_fetch_add(&controller->window_written_lines, lines, __ATOMIC_RELAXED);
}

static uint32_t bounded_price(uint64_t price_x65536)
{
    return (uint32_t)between(price_x65536, CONTROLLER_PRICE_ONE, CONTROLLER_MAX_PRICE * CONTROLLER_PRICE_ONE);
}

uint32_t controller_price(uint32_t price_x65536, uint64_t utilisation_permille)
{
    uint64_t price = bounded_price(price_x65536);
    return bounded_price(price * (3000 + between(utilisation_permille, 0, 5000)) / 4000);
}

uint64_t controller_read_delay(const struct vpmu_mc *controller, uint64_t cycles)
{
    uint64_t most = 2 * CONTROLLER_MAX_PRICE * CONTROLLER_LATENCY_ONE;
    uint64_t factor = between(load32(&controller->latency_x256), CONTROLLER_LATENCY_ONE, most);
    return cycles * factor / CONTROLLER_LATENCY_ONE;
}

uint64_t controller_write_delay(const struct vpmu_mc *controller, uint64_t line_cycles)
{
    uint64_t price = bounded_price(load32(&controller->write_price_x65536));
    return line_cycles * (price - CONTROLLER_PRICE_ONE) / CONTROLLER_PRICE_ONE;
}

static uint64_t permille_of_capacity(uint64_t capacity_lines_per_s, uint64_t lines, uint64_t span_ns)
{
    double possible = (double)capacity_lines_per_s * (double)span_ns / 1e9;
    double permille = possible > 0 ? 1000 * (double)lines / possible : 0;
    return permille > (double)MAX_PERMILLE ? MAX_PERMILLE : (uint64_t)permille;
}

static uint32_t latency_x256(uint64_t utilisation_permille, uint32_t price_x65536)
{
    uint64_t conflicts_permille = 1000 + between(utilisation_permille, 0, 1000);
    return (uint32_t)(CONTROLLER_LATENCY_ONE * conflicts_permille * price_x65536 / 1000 / CONTROLLER_PRICE_ONE);
}

/* Guests slow down when they pay more, so the raw value would swing between windows: smooth it, but let go of what was
 * before a pause. */
static uint32_t smoothed(const uint32_t *before, uint64_t fresh, bool is_after_pause)
{
    return (uint32_t)(is_after_pause ? fresh : (3 * (uint64_t)load32(before) + fresh) / 4);
}

static void set(uint32_t *field, uint32_t value)
{
    __atomic_store_n(field, value, __ATOMIC_RELAXED);
}

static void charge(struct vpmu_mc *controller, uint64_t lines, uint64_t written, uint64_t span_ns)
{
    bool is_after_pause = span_ns > 10 * CONTROLLER_WINDOW_NS;
    uint64_t used = permille_of_capacity(controller->capacity_lines_per_s, lines, span_ns);
    uint64_t write_used = permille_of_capacity(controller->write_capacity_lines_per_s, written, span_ns);
    uint32_t utilisation = smoothed(&controller->utilisation_permille, used, is_after_pause);
    uint32_t price = controller_price(is_after_pause ? 0 : load32(&controller->price_x65536), used);
    set(&controller->utilisation_permille, utilisation);
    set(&controller->write_utilisation_permille,
        smoothed(&controller->write_utilisation_permille, write_used, is_after_pause));
    set(&controller->price_x65536, price);
    set(&controller->write_price_x65536,
        controller_price(is_after_pause ? 0 : load32(&controller->write_price_x65536), write_used));
    set(&controller->latency_x256, latency_x256(utilisation, price));
}

void controller_close_window(struct vpmu_mc *controller, uint64_t now_ns)
{
    uint64_t start_ns = load64(&controller->window_start_ns);
    /* Another thread may have opened a window after the caller read the clock. */
    if (now_ns < start_ns || now_ns - start_ns < CONTROLLER_WINDOW_NS)
        return;
    if (!__atomic_compare_exchange_n(&controller->window_start_ns, &start_ns, now_ns, false,
                                     __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        return;
    uint64_t lines = __atomic_exchange_n(&controller->window_lines, 0, __ATOMIC_RELAXED);
    uint64_t written = __atomic_exchange_n(&controller->window_written_lines, 0, __ATOMIC_RELAXED);
    __atomic_fetch_add(&controller->total_lines, lines, __ATOMIC_RELAXED);
    __atomic_fetch_add(&controller->total_written_lines, written, __ATOMIC_RELAXED);
    charge(controller, lines, written, now_ns - start_ns);
}
