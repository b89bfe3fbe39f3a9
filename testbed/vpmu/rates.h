// SPDX-License-Identifier: Apache-2.0
/* What two readings of a vCPU's slot say about the time between them. A ratio without events is NAN. */
#ifndef VPMU_RATES_H
#define VPMU_RATES_H

#include "vpmu_layout.h"

struct rates {
    double mips;
    double l2_mpki;
    double llc_mpki;
    double memory_factor; /* LLC misses / L2 misses */
    double shadow_memory_factor;
    double local_ratio;
    double ipc;
    double paced_ratio;
    double write_mpki; /* write-backs */
    double granted_ratio; /* these three on modelled CPUs, of the time that passed */
    double run_delay_ratio;
    double throttled_ratio;
    double debt_ratio; /* of wall time */
};

struct rates rates_between(const struct vpmu_slot *before, const struct vpmu_slot *after, uint64_t span_ns);

#endif
