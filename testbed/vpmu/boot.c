// SPDX-License-Identifier: Apache-2.0
#include "boot.h"

static uint64_t load(const uint64_t *count)
{
    return __atomic_load_n(count, __ATOMIC_RELAXED);
}

void boot_observe(struct boot *boot, bool in_kernel, uint64_t instructions)
{
    if (in_kernel)
        __atomic_fetch_add(&boot->kernel_instructions, instructions, __ATOMIC_RELAXED);
    else if (load(&boot->kernel_instructions) >= BOOT_KERNEL_INSTRUCTIONS)
        __atomic_fetch_add(&boot->user_instructions, instructions, __ATOMIC_RELAXED);
}

bool boot_is_over(const struct boot *boot, const struct boot_limits *limits, uint64_t now_ns)
{
    if (now_ns >= boot->started_ns + limits->deadline_ns)
        return true;
    return limits->user_instructions > 0 && load(&boot->user_instructions) >= limits->user_instructions;
}
