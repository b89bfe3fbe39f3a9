// SPDX-License-Identifier: Apache-2.0
/*
 * A modelled memory controller: all VMs of a directory add the cache lines they read and write back, and whoever finds
 * a window over closes it and sets what everyone's next misses and write-backs pay. Pure but for the shared struct; the
 * caller brings the time.
 *
 * Not a queue with a formula but a limit: the data bus moves `capacity_lines_per_s` of reads and writes together, the
 * write buffers drain `write_capacity_lines_per_s`. Below its bus limit a miss takes 1 + u times as long at utilisation
 * u, because others' requests close its open rows. A limit that is exceeded is kept by a price: the price of a miss (or
 * of a write-back) rises a quarter of the excess in each window until the load fits, and falls in the same way.
 */
#ifndef VPMU_CONTROLLER_H
#define VPMU_CONTROLLER_H

#include "vpmu_layout.h"

#define CONTROLLER_WINDOW_NS 10000000ull
#define CONTROLLER_LATENCY_ONE 256u  /* factor 1.0 */
#define CONTROLLER_PRICE_ONE 65536u  /* price 1.0 */
#define CONTROLLER_MAX_PRICE 64u     /* bounds a miss at 128 times its latency */

void controller_add_reads(struct vpmu_mc *controller, uint64_t lines);
void controller_add_writes(struct vpmu_mc *controller, uint64_t lines);

/* Closes the window if it is over; of several callers at once one does it. */
void controller_close_window(struct vpmu_mc *controller, uint64_t now_ns);

/* The price after a window in which a limit was used so far. */
uint32_t controller_price(uint32_t price_x65536, uint64_t utilisation_permille);

/* `cycles` of latency under the controller's present load; bounded, whatever the shared file says. */
uint64_t controller_read_delay(const struct vpmu_mc *controller, uint64_t cycles);

/* What one written line stalls whoever evicts it: writes are buffered, so nothing until the write limit is exceeded.
 * `line_cycles`: how long the write buffers take for a line at that limit. */
uint64_t controller_write_delay(const struct vpmu_mc *controller, uint64_t line_cycles);

#endif
