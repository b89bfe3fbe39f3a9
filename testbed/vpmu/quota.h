// SPDX-License-Identifier: Apache-2.0
/*
 * A CPU quota in modelled time, counted as the kernel's CFS bandwidth control does: filled anew in each period, an
 * overshoot is paid from the next one. Pure; the caller brings the time.
 */
#ifndef VPMU_QUOTA_H
#define VPMU_QUOTA_H

#include <stdbool.h>

#include "vpmu_layout.h"

/* True if nothing is left in this period. To be asked only for runnable vCPUs: periods without one do not count. */
bool quota_is_used_up(struct vpmu_quota *quota, uint64_t now_ns);

/* How long until it is filled anew; 0: something is left. It never exceeds the longest period. */
uint64_t quota_wait_ns(const struct vpmu_quota *quota, uint64_t now_ns);

/* So much of it was used. */
void quota_charge(struct vpmu_quota *quota, uint64_t ns);

#endif
