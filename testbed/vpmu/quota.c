// SPDX-License-Identifier: Apache-2.0
#include "quota.h"

/* What the kernel takes: a period of 1 ms to 1 s. */
#define MIN_PERIOD_US 1000u
#define MAX_PERIOD_US 1000000u

static uint32_t load(const uint32_t *field)
{
    return __atomic_load_n(field, __ATOMIC_RELAXED);
}

static void fill(struct vpmu_quota *quota, int64_t quota_ns, uint64_t period_ns, uint64_t now_ns)
{
    bool is_next = now_ns < quota->period_start_ns + 2 * period_ns;
    int64_t overshoot_ns = is_next && quota->left_ns < 0 ? quota->left_ns : 0;
    quota->period_start_ns = is_next ? quota->period_start_ns + period_ns : now_ns;
    quota->left_ns = quota_ns + (overshoot_ns < -quota_ns ? -quota_ns : overshoot_ns);
    quota->periods++;
    quota->is_throttled = 0;
}

bool quota_is_used_up(struct vpmu_quota *quota, uint64_t now_ns)
{
    uint64_t period_us = load(&quota->period_us);
    int64_t quota_ns = (int64_t)load(&quota->quota_us) * 1000;
    if (!quota_ns || period_us < MIN_PERIOD_US || period_us > MAX_PERIOD_US) {
        quota->period_start_ns = 0;
        quota->left_ns = 0;
        quota->is_throttled = 0;
        return false;
    }
    uint64_t period_ns = period_us * 1000;
    /* A beginning in the future is a spoilt file's. */
    if (now_ns >= quota->period_start_ns + period_ns || now_ns < quota->period_start_ns)
        fill(quota, quota_ns, period_ns, now_ns);
    if (quota->left_ns > quota_ns)
        quota->left_ns = quota_ns; /* it was lowered within the period */
    if (quota->left_ns > 0)
        return false;
    if (!quota->is_throttled)
        quota->throttled_periods++;
    quota->is_throttled = 1;
    return true;
}

uint64_t quota_wait_ns(const struct vpmu_quota *quota, uint64_t now_ns)
{
    uint64_t period_us = load(&quota->period_us);
    uint64_t start_ns = __atomic_load_n(&quota->period_start_ns, __ATOMIC_RELAXED);
    if (!load(&quota->quota_us) || !load(&quota->is_throttled) || period_us > MAX_PERIOD_US)
        return 0;
    /* A beginning in the future is a spoilt file's. */
    return now_ns < start_ns || now_ns - start_ns >= period_us * 1000 ? 0 : start_ns + period_us * 1000 - now_ns;
}

void quota_charge(struct vpmu_quota *quota, uint64_t ns)
{
    if (load(&quota->quota_us))
        quota->left_ns -= (int64_t)ns;
}
