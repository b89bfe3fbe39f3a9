// SPDX-License-Identifier: Apache-2.0
// The kinds of load, except the server: what each does to the caches, and the table the grammar looks them up in.
// Costs per operation are known to whoever reads the counters: a chase step is 13 instructions and one line, a
// streamed line 14, a round of compute 7 and no memory.

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "workload.h"

// Chunks last at most some 10 ms even at a modelled 20 MHz.
enum { COMPUTE_ROUNDS = 8192, CHASE_STEPS = 2048, STREAM_LINES = 2048, LINES_PER_WRITE = 4 };

void *reserve(size_t bytes)
{
    const size_t huge = 2 << 20;
    size_t rounded = (bytes + huge - 1) / huge * huge;
    void *memory = aligned_alloc(huge, rounded);
    if (memory == NULL)
        die("cannot allocate %zu KiB: give the guest more memory or the work a smaller working set", bytes / 1024);
    madvise(memory, rounded, MADV_HUGEPAGE);
    memset(memory, 1, bytes);
    return memory;
}

static uint64_t next_random(uint64_t *seed)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return *seed;
}

struct node *make_cycle(size_t bytes)
{
    struct node *nodes = reserve(bytes);
    size_t count = bytes / sizeof(struct node);
    uint64_t seed = 88172645463325252;

    // Sattolo's shuffle of the successor links: exactly one cycle through all nodes.
    for (size_t i = 0; i < count; i++)
        nodes[i].next = &nodes[i];
    for (size_t i = count - 1; i > 0; i--) {
        size_t other = next_random(&seed) % i;
        struct node *swapped = nodes[i].next;
        nodes[i].next = nodes[other].next;
        nodes[other].next = swapped;
    }
    return nodes;
}

struct node *walk(struct node *at, unsigned steps)
{
    uint64_t mixed = 1;
    for (unsigned i = 0; i < steps; i++) {
        at = at->next;
        mixed = mixed * 3 + (uintptr_t)at;
        mixed ^= mixed >> 3;
        mixed += i;
        mixed = ~(mixed ^ mixed << 2);
        __asm__ volatile("" : "+r"(mixed), "+r"(at)); // keeps every step and its order
    }
    return at;
}

static void prepare_nothing(struct phase *phase)
{
    (void)phase;
}

static void prepare_chase(struct phase *phase)
{
    phase->state = make_cycle(phase->bytes);
}

static uint64_t run_chase(struct phase *phase, int64_t until_ns)
{
    (void)until_ns;
    phase->state = walk(phase->state, CHASE_STEPS);
    return CHASE_STEPS;
}

void compute(uint64_t rounds)
{
    uint64_t mixed = 1;
    for (; rounds > 0; rounds--) {
        mixed = mixed * 6364136223846793005 + 1442695040888963407;
        mixed ^= mixed >> 17;
        __asm__ volatile("" : "+r"(mixed));
    }
}

uint64_t run_compute(struct phase *phase, int64_t until_ns)
{
    (void)phase, (void)until_ns;
    compute(COMPUTE_ROUNDS);
    return COMPUTE_ROUNDS;
}

struct line {
    uint64_t words[LINE_BYTES / sizeof(uint64_t)];
};

struct stream {
    struct line *lines;
    size_t count;
    size_t at;
};

static void prepare_stream(struct phase *phase)
{
    struct stream *stream = phase->state = malloc(sizeof(*stream));
    stream->lines = reserve(phase->bytes);
    stream->count = phase->bytes / LINE_BYTES;
    stream->at = 0;
}

static uint64_t sum_lines(struct line *line, size_t count, size_t first_number)
{
    uint64_t sum = 0;
    for (size_t number = first_number; number < first_number + count; number++, line++) {
#pragma GCC unroll 8
        for (size_t word = 0; word < LINE_BYTES / sizeof(uint64_t); word++) {
            sum += line->words[word];
            __asm__ volatile("" : "+r"(sum)); // one load per word
        }
        if (number % LINES_PER_WRITE == 0)
            line->words[0] = sum;
    }
    return sum;
}

static size_t next_lines(const struct stream *stream)
{
    size_t left = stream->count - stream->at;
    return left < STREAM_LINES ? left : STREAM_LINES;
}

static uint64_t run_stream(struct phase *phase, int64_t until_ns)
{
    (void)until_ns;
    struct stream *stream = phase->state;
    size_t count = next_lines(stream);
    // Not always the same lines of a page: a model that samples sets would see all of them written, or none.
    sum_lines(stream->lines + stream->at, count, stream->at / STREAM_LINES % LINES_PER_WRITE);
    stream->at = (stream->at + count) % stream->count;
    return count;
}

static void write_lines(struct line *lines, size_t count)
{
    for (size_t i = 0; i < count; i++) {
#pragma GCC unroll 8
        for (size_t word = 0; word < LINE_BYTES / sizeof(uint64_t); word++)
            *(volatile uint64_t *)&lines[i].words[word] = i; // one store per word
    }
}

static uint64_t run_write(struct phase *phase, int64_t until_ns)
{
    (void)until_ns;
    struct stream *stream = phase->state;
    size_t count = next_lines(stream);
    write_lines(stream->lines + stream->at, count);
    stream->at = (stream->at + count) % stream->count;
    return count;
}

static uint64_t run_idle(struct phase *phase, int64_t until_ns)
{
    (void)phase;
    sleep_until(until_ns);
    return 0;
}

static const struct kind KINDS[] = {
    {.name = "chase", .default_kib = 384, .prepare = prepare_chase, .run = run_chase},
    {.name = "compute", .prepare = prepare_nothing, .run = run_compute},
    {.name = "frames",
     .configure = configure_frames,
     .prepare = prepare_frames,
     .run = run_frames,
     .describe = describe_frames},
    {.name = "idle", .prepare = prepare_nothing, .run = run_idle},
    {.name = "jobs", .join = join_jobs, .prepare = prepare_nothing, .run = run_jobs},
    {.name = "server",
     .default_kib = 384,
     .takes_rate = true,
     .goes_on = true,
     .prepare = prepare_server,
     .run = run_server,
     .describe = describe_server},
    {.name = "stream", .default_kib = 8192, .prepare = prepare_stream, .run = run_stream},
    {.name = "tier",
     .configure = configure_tier,
     .join = join_tier,
     .prepare = prepare_nothing,
     .run = run_tier},
    {.name = "write", .default_kib = 8192, .prepare = prepare_stream, .run = run_write},
};

const struct kind *find_kind(const char *name)
{
    for (size_t i = 0; i < sizeof(KINDS) / sizeof(KINDS[0]); i++)
        if (strcmp(KINDS[i].name, name) == 0)
            return &KINDS[i];
    return NULL;
}

const char *kind_names(void)
{
    return "chase, compute, frames, idle, jobs, server, stream, tier, write";
}
