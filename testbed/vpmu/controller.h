// SPDX-License-Identifier: Apache-2.0
/*
 * A modelled memory controller: all VMs of a directory add the cache lines they transfer, and whoever finds a window
 * over closes it and sets the latency factor that everyone's misses then pay. Pure but for the shared struct; the
 * caller brings the time.
 */
#ifndef VPMU_CONTROLLER_H
#define VPMU_CONTROLLER_H

#include "vpmu_layout.h"

#define CONTROLLER_WINDOW_NS 10000000ull
#define CONTROLLER_LATENCY_ONE 256u      /* factor 1.0 */
#define CONTROLLER_MAX_UTILISATION 950u  /* permille; bounds the factor at 10.5 */

void controller_add(struct vpmu_mc *controller, uint64_t lines);

/* Closes the window if it is over; of several callers at once one does it. */
void controller_close_window(struct vpmu_mc *controller, uint64_t now_ns);

/* Latency factor times 256 at a utilisation: that of an M/D/1 queue, 1 + u / (2 (1 - u)). */
uint32_t controller_latency_x256(uint64_t utilisation_permille);

/* `cycles` of latency under the controller's present load; bounded, whatever the shared file says. */
uint64_t controller_delay(const struct vpmu_mc *controller, uint64_t cycles);

#endif
