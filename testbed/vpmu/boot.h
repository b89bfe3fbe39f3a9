// SPDX-License-Identifier: Apache-2.0
/*
 * When has a guest booted? Nobody tells vpmu, and pacing a boot would make it last a minute, so it watches where the
 * guest executes: firmware and boot loader run at low addresses, then the kernel in the upper half of the address
 * space; the boot is over after a given number of instructions in the lower half *after* the kernel was seen, that is
 * in user space, or when a deadline passes. Pure; shared by a VM's vCPU threads.
 */
#ifndef VPMU_BOOT_H
#define VPMU_BOOT_H

#include <stdbool.h>
#include <stdint.h>

/* Fewer upper-half instructions than this are not a running kernel. */
#define BOOT_KERNEL_INSTRUCTIONS 20000000ull

struct boot {
    uint64_t started_ns;
    uint64_t kernel_instructions;
    uint64_t user_instructions;
};

struct boot_limits {
    uint64_t deadline_ns;       /* after the start, 0 = over at once */
    uint64_t user_instructions; /* 0 = the deadline alone decides */
};

/* A vCPU executed so many instructions, the last of them in the kernel's half or not. */
void boot_observe(struct boot *boot, bool in_kernel, uint64_t instructions);

bool boot_is_over(const struct boot *boot, const struct boot_limits *limits, uint64_t now_ns);

#endif
