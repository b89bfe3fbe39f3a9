// SPDX-License-Identifier: Apache-2.0
/*
 * Pacing of one vCPU: how long to sleep so that modelled cycles pass at `mhz` of wall time, and how much modelled time
 * is lost when the host cannot keep up. Pure arithmetic: the caller brings the clock and does the sleeping.
 */
#ifndef VPMU_PACE_H
#define VPMU_PACE_H

#include <stdbool.h>
#include <stdint.h>

#define PACE_MIN_SLEEP_NS 50000ull     /* below the kernel's timer slack a sleep is not worth its cost */
#define PACE_MAX_SLEEP_NS 20000000ull  /* the rest stays owed; QEMU must be able to stop the vCPU soon */
#define PACE_CATCH_UP_NS 100000000ull  /* a late vCPU may catch up this much, what is more becomes debt */

struct pace {
    bool is_anchored;
    uint32_t mhz;
    uint64_t anchor_ns;     /* at this moment ... */
    uint64_t anchor_cycles; /* ... the guest had run so many cycles */
};

struct pace_step {
    uint64_t sleep_ns;
    uint64_t debt_ns;
};

/* After having run: what to do now. `mhz` 0 means unpaced; a changed `mhz` starts anew without credit or debt. */
struct pace_step pace_step(struct pace *pace, uint32_t mhz, uint64_t now_ns, uint64_t cycles);

/* Without having run on: for how long it must still sleep. */
uint64_t pace_owed_ns(const struct pace *pace, uint64_t now_ns, uint64_t cycles);

/* After having been halted: time that passed idle is neither credit nor debt, time still owed stays owed. */
void pace_resume(struct pace *pace, uint64_t now_ns, uint64_t cycles);

#endif
