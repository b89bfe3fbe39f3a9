// SPDX-License-Identifier: Apache-2.0
// The two clocks: uptime for rates and spans, epoch for comparing with what happened on the host. A guest's epoch
// starts from an emulated RTC of whole seconds and lags by the time that the guest was suspended; see README.md.

#include <time.h>

#include "workload.h"

static int64_t read_clock(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return now.tv_sec * NS_PER_S + now.tv_nsec;
}

int64_t uptime_ns(void)
{
    return read_clock(CLOCK_MONOTONIC);
}

int64_t epoch_ns(void)
{
    return read_clock(CLOCK_REALTIME);
}

void sleep_until(int64_t until_ns)
{
    struct timespec until = {until_ns / NS_PER_S, until_ns % NS_PER_S};
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
}
