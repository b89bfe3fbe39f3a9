// SPDX-License-Identifier: Apache-2.0
#include "pace.h"

static void anchor(struct pace *pace, uint32_t mhz, uint64_t now_ns, uint64_t cycles)
{
    *pace = (struct pace){.is_anchored = true, .mhz = mhz, .anchor_ns = now_ns, .anchor_cycles = cycles};
}

/* Whole seconds leave the anchor exactly, so that the product in due_ns never overflows in a long life. */
static void advance_anchor(struct pace *pace, uint64_t cycles)
{
    uint64_t per_second = pace->mhz * 1000000ull;
    uint64_t seconds = (cycles - pace->anchor_cycles) / per_second;
    pace->anchor_cycles += seconds * per_second;
    pace->anchor_ns += seconds * 1000000000ull;
}

static uint64_t due_ns(const struct pace *pace, uint64_t cycles)
{
    return pace->anchor_ns + (cycles - pace->anchor_cycles) * 1000 / pace->mhz;
}

struct pace_step pace_step(struct pace *pace, uint32_t mhz, uint64_t now_ns, uint64_t cycles)
{
    struct pace_step step = {0, 0};
    if (mhz == 0) {
        pace->is_anchored = false;
        return step;
    }
    if (!pace->is_anchored || pace->mhz != mhz) {
        anchor(pace, mhz, now_ns, cycles);
        return step;
    }
    advance_anchor(pace, cycles);
    uint64_t due = due_ns(pace, cycles);
    if (due >= now_ns + PACE_MIN_SLEEP_NS)
        step.sleep_ns = due - now_ns < PACE_MAX_SLEEP_NS ? due - now_ns : PACE_MAX_SLEEP_NS;
    else if (now_ns > due + PACE_CATCH_UP_NS)
        step.debt_ns = now_ns - due - PACE_CATCH_UP_NS;
    pace->anchor_ns += step.debt_ns;
    return step;
}

uint64_t pace_owed_ns(const struct pace *pace, uint64_t now_ns, uint64_t cycles)
{
    uint64_t due = pace->is_anchored ? due_ns(pace, cycles) : 0;
    return due >= now_ns + PACE_MIN_SLEEP_NS ? due - now_ns : 0;
}

void pace_resume(struct pace *pace, uint64_t now_ns, uint64_t cycles)
{
    if (pace->is_anchored && due_ns(pace, cycles) < now_ns)
        anchor(pace, pace->mhz, now_ns, cycles);
}
