/* SPDX-License-Identifier: Apache-2.0
 * The few devices that the writer uses: serial port, clock, time stamp counter. */
#ifndef MACHINE_H
#define MACHINE_H

#include <stdint.h>

void serial_start(void);
void print(const char *text);
void print_number(uint32_t value);

/* By the time stamp counter, which goes on while the host keeps the guest from running. */
void clock_start(void);
uint32_t clock_ticks_per_ms(void);
uint64_t clock_now(void);

/* The compiler's own division of 64 bits is in a library that is not there. */
uint32_t divide(uint64_t value, uint32_t by);

#endif
