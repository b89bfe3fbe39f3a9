/* SPDX-License-Identifier: Apache-2.0
 * Serial port, clock and time stamp counter of a PC, by port. */
#include "machine.h"

#define SERIAL 0x3f8
#define SERIAL_STATUS (SERIAL + 5)
#define SERIAL_READY 0x20
#define CMOS_INDEX 0x70
#define CMOS_DATA 0x71
#define CMOS_SECONDS 0

static uint32_t ticks_per_ms;

static void write_port(uint16_t port, uint8_t value)
{
    __asm__ volatile("outb %0, %1" : : "a"(value), "Nd"(port));
}

static uint8_t read_port(uint16_t port)
{
    uint8_t value;
    __asm__ volatile("inb %1, %0" : "=a"(value) : "Nd"(port));
    return value;
}

void serial_start(void)
{
    write_port(SERIAL + 1, 0);    /* no interrupts */
    write_port(SERIAL + 3, 0x03); /* 8 bits, no parity, one stop bit */
    write_port(SERIAL + 2, 0x01); /* with a FIFO */
}

static void print_character(char one)
{
    while (!(read_port(SERIAL_STATUS) & SERIAL_READY))
        ;
    write_port(SERIAL, (uint8_t)one);
}

void print(const char *text)
{
    while (*text)
        print_character(*text++);
}

void print_number(uint32_t value)
{
    char digits[11];
    int at = sizeof digits - 1;

    digits[at] = 0;
    do
        digits[--at] = (char)('0' + value % 10);
    while (value /= 10);
    print(digits + at);
}

uint64_t clock_now(void)
{
    return __builtin_ia32_rdtsc();
}

uint32_t divide(uint64_t value, uint32_t by)
{
    uint32_t high = (uint32_t)(value >> 32) % by, low = (uint32_t)value, quotient, rest;

    __asm__("divl %4" : "=a"(quotient), "=d"(rest) : "0"(low), "1"(high), "r"(by));
    return quotient;
}

static uint8_t read_seconds(void)
{
    write_port(CMOS_INDEX, CMOS_SECONDS);
    return read_port(CMOS_DATA);
}

/* Now, when the second of the battery-backed clock changes. */
static uint64_t wait_for_next_second(void)
{
    uint8_t before = read_seconds();

    while (read_seconds() == before)
        ;
    return clock_now();
}

void clock_start(void)
{
    uint64_t began = wait_for_next_second();

    ticks_per_ms = divide(wait_for_next_second() - began, 1000);
}

uint32_t clock_ticks_per_ms(void)
{
    return ticks_per_ms;
}
