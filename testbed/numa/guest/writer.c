/* SPDX-License-Identifier: Apache-2.0
 * Writes throughout its memory, for ever, and checks all that it wrote before.
 *
 * Every word of the part of a page that is used follows from the page's number and the round: each
 * round visits every page once, checks that it holds what the round before wrote, and writes anew.
 * So a page that is lost, old, torn or swapped is seen. Pages are visited in a scattered order, to
 * meet those that the host is moving. A line a second tells how far it is, the longest time between
 * two pages (in which the guest stood still), and how many pages were wrong.
 */
#include "machine.h"

#define PAGE_WORDS 1024
#ifndef WORD_STEP
#define WORD_STEP 4 /* four words in each cache line */
#endif
#define FIRST_PAGE 0x400 /* 4 MiB: beyond this program */
#define SCATTER 65537    /* prime, and no divisor of any number of pages that we may have */
#define REPORT_MS 1000

struct boot_information {
    uint32_t flags, lower_kib, upper_kib; /* upper: from 1 MiB */
};

struct progress {
    uint32_t round, pages, wrong;
    uint64_t last_page_at, last_report_at, longest, longest_ever;
};

static uint32_t seed(uint32_t page, uint32_t round)
{
    return page * 0x85ebca6bu ^ round * 0xc2b2ae35u;
}

static uint32_t *words_of(uint32_t page)
{
    return (uint32_t *)((FIRST_PAGE + page) * 4096);
}

static void fill(uint32_t page, uint32_t round)
{
    volatile uint32_t *words = words_of(page);
    uint32_t value = seed(page, round);

    for (int at = 0; at < PAGE_WORDS; at += WORD_STEP, value += 0x9e3779b9u)
        words[at] = value;
}

/* Whether the page held what the round before wrote. */
static int check_and_fill(uint32_t page, uint32_t round)
{
    volatile uint32_t *words = words_of(page);
    uint32_t old = seed(page, round - 1), value = seed(page, round), difference = 0;

    for (int at = 0; at < PAGE_WORDS; at += WORD_STEP) {
        difference |= words[at] ^ old;
        words[at] = value;
        old += 0x9e3779b9u;
        value += 0x9e3779b9u;
    }
    return difference == 0;
}

static void print_pair(const char *name, uint32_t value)
{
    print(" ");
    print(name);
    print("=");
    print_number(value);
}

static void report(struct progress *progress, uint64_t now)
{
    uint32_t per_ms = clock_ticks_per_ms();

    print("writer:");
    print_pair("ms", divide(now, per_ms));
    print_pair("round", progress->round);
    print_pair("pages", progress->pages);
    print_pair("longest_ms", divide(progress->longest, per_ms));
    print_pair("longest_ever_ms", divide(progress->longest_ever, per_ms));
    print_pair("wrong", progress->wrong);
    print("\n");
    progress->longest = 0;
    progress->pages = 0;
    progress->last_report_at = now;
}

static void count_page(struct progress *progress)
{
    uint64_t now = clock_now(), took = now - progress->last_page_at;

    progress->last_page_at = now;
    progress->pages++;
    if (took > progress->longest)
        progress->longest = took;
    if (took > progress->longest_ever)
        progress->longest_ever = took;
    if (now - progress->last_report_at > (uint64_t)REPORT_MS * clock_ticks_per_ms()) {
        report(progress, now);
        progress->last_page_at = clock_now(); /* printing is no pause */
    }
}

static void complain(struct progress *progress, uint32_t page)
{
    progress->wrong++;
    print("writer: WRONG");
    print_pair("round", progress->round);
    print_pair("page", FIRST_PAGE + page);
    print("\n");
}

static void write_round(struct progress *progress, uint32_t pages)
{
    uint32_t page = 0;

    for (uint32_t done = 0; done < pages; done++) {
        if (progress->round == 0)
            fill(page, 0);
        else if (!check_and_fill(page, progress->round))
            complain(progress, page);
        count_page(progress);
        page = (page + SCATTER) % pages;
    }
}

void writer_main(const struct boot_information *boot)
{
    uint32_t pages = boot->upper_kib / 4 + 256 - FIRST_PAGE;
    struct progress progress = {0};

    serial_start();
    clock_start();
    print("writer: start");
    print_pair("pages", pages);
    print_pair("ticks_per_ms", clock_ticks_per_ms());
    print("\n");
    progress.last_page_at = progress.last_report_at = clock_now();
    for (;; progress.round++) {
        write_round(&progress, pages);
        if (progress.round == 0)
            progress.longest = progress.longest_ever = 0; /* the host was finding memory for us */
    }
}
