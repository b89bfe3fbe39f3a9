// SPDX-License-Identifier: Apache-2.0
#include "controller.h"

#include <stdbool.h>

void controller_add(struct vpmu_mc *controller, uint64_t lines)
{
    __atomic_fetch_add(&controller->window_lines, lines, __ATOMIC_RELAXED);
}

uint32_t controller_latency_x256(uint64_t utilisation_permille)
{
    uint64_t busy = utilisation_permille;
    if (busy > CONTROLLER_MAX_UTILISATION)
        busy = CONTROLLER_MAX_UTILISATION;
    return CONTROLLER_LATENCY_ONE + (uint32_t)(CONTROLLER_LATENCY_ONE * busy / (2 * (1000 - busy)));
}

uint64_t controller_delay(const struct vpmu_mc *controller, uint64_t cycles)
{
    uint32_t factor = __atomic_load_n(&controller->latency_x256, __ATOMIC_RELAXED);
    uint32_t most = controller_latency_x256(CONTROLLER_MAX_UTILISATION);
    if (factor < CONTROLLER_LATENCY_ONE)
        factor = CONTROLLER_LATENCY_ONE;
    return cycles * (factor < most ? factor : most) / CONTROLLER_LATENCY_ONE;
}

static uint64_t permille_of_capacity(const struct vpmu_mc *controller, uint64_t lines, uint64_t span_ns)
{
    double possible = (double)controller->capacity_lines_per_s * (double)span_ns / 1e9;
    double ratio = possible > 0 ? (double)lines / possible : 0;
    return ratio > 1000 ? 1000000 : (uint64_t)(ratio * 1000);
}

void controller_close_window(struct vpmu_mc *controller, uint64_t now_ns)
{
    uint64_t start_ns = __atomic_load_n(&controller->window_start_ns, __ATOMIC_RELAXED);
    /* Another thread may have opened a window after the caller read the clock. */
    if (now_ns < start_ns || now_ns - start_ns < CONTROLLER_WINDOW_NS)
        return;
    if (!__atomic_compare_exchange_n(&controller->window_start_ns, &start_ns, now_ns, false,
                                     __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        return;
    uint64_t lines = __atomic_exchange_n(&controller->window_lines, 0, __ATOMIC_RELAXED);
    uint64_t fresh = permille_of_capacity(controller, lines, now_ns - start_ns);
    uint64_t before = __atomic_load_n(&controller->utilisation_permille, __ATOMIC_RELAXED);
    /* Guests slow down when the factor rises, so the raw value would swing between windows: smooth it, but let go
     * of what was before a pause. */
    bool after_pause = now_ns - start_ns > 10 * CONTROLLER_WINDOW_NS;
    uint64_t smooth = after_pause ? fresh : (3 * before + fresh) / 4;
    __atomic_fetch_add(&controller->total_lines, lines, __ATOMIC_RELAXED);
    __atomic_store_n(&controller->utilisation_permille, (uint32_t)smooth, __ATOMIC_RELAXED);
    __atomic_store_n(&controller->latency_x256, controller_latency_x256(smooth), __ATOMIC_RELAXED);
}
