// SPDX-License-Identifier: Apache-2.0
// What the files of the workload share: a *kind* of load, a *phase* (a kind, its size, how long), a *track* (phases
// one after another on one vCPU) and the *work* (tracks side by side). Each kind runs in chunks of a few
// milliseconds, so that one loop in main.c can report and switch on time whatever the kind.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MAX_PHASES = 32, MAX_TRACKS = 16, LINE_BYTES = 64 };

static const int64_t NS_PER_S = 1000000000;

struct phase;

struct kind {
    const char *name;
    size_t default_kib; // 0: has no working set
    bool takes_rate;
    // Reads what stands behind the colon in place of a working set; NULL: the kind has none of its own. `item`: all of
    // it, for messages.
    void (*configure)(struct phase *phase, const char *text, const char *item);
    bool goes_on; // an item after another one of the same kind and size takes over what that one prepared
    // Called once for each phase of all tracks, before these are processes of their own; NULL: they share nothing.
    void (*join)(struct phase *phase);
    // Called once before any phase starts: a switch then costs no allocation and no page faults.
    void (*prepare)(struct phase *phase);
    // Does a chunk of work, waiting no longer than until_ns; returns how many operations it completed.
    uint64_t (*run)(struct phase *phase, int64_t until_ns);
    // Writes further fields of the RATE line and forgets them; NULL: the kind has none.
    void (*describe)(struct phase *phase, char *text, size_t size);
};

struct phase {
    const struct kind *kind;
    size_t bytes;
    int64_t request_interval_ns; // 0: closed loop
    bool is_random;              // requests fall due at random moments, so many on average
    int64_t lasts_ns;            // 0: no span given
    int64_t until_ns;            // 0: no uptime given
    void *state;                 // owned by the kind
};

struct track {
    struct phase phases[MAX_PHASES];
    int count;
};

struct work {
    struct track tracks[MAX_TRACKS];
    int count;
};

// Says what is wrong and what to do on stderr, then ends with status 2.
_Noreturn void die(const char *format, ...) __attribute__((format(printf, 1, 2)));

void parse_work(const char *text, struct work *work);
const struct kind *find_kind(const char *name);
const char *kind_names(void);

// Memory at a 2 MiB boundary in huge pages where possible: neighbouring lines then fall into neighbouring cache
// sets, and a working set smaller than the cache fits into it in every boot.
void *reserve(size_t bytes);

struct node {
    struct node *next;
    char rest[LINE_BYTES - sizeof(struct node *)];
};

// All lines of the working set linked into one cycle in random (but always the same) order.
struct node *make_cycle(size_t bytes);
struct node *walk(struct node *at, unsigned steps);

void prepare_server(struct phase *phase);
uint64_t run_server(struct phase *phase, int64_t until_ns);
void describe_server(struct phase *phase, char *text, size_t size);

// Arithmetic in registers, seven instructions a round.
void compute(uint64_t rounds);
uint64_t run_compute(struct phase *phase, int64_t until_ns);

void configure_tier(struct phase *phase, const char *text, const char *item);
void join_tier(struct phase *phase);
uint64_t run_tier(struct phase *phase, int64_t until_ns);

void configure_frames(struct phase *phase, const char *text, const char *item);
void prepare_frames(struct phase *phase);
uint64_t run_frames(struct phase *phase, int64_t until_ns);
void describe_frames(struct phase *phase, char *text, size_t size);

// Calls `set` for each NAME=VALUE of a text such as `browse=40;next=10.0.0.2`; `set` says whether it takes it.
void parse_settings(void *state, const char *text, const char *item, bool (*set)(void *state, const char *name,
                    const char *value), const char *expected);
// Returns -1 for anything but a whole number from 0 to max.
long parse_whole(const char *text, long max);
// Returns whether it is the number of a port.
bool parse_port(const char *text, uint16_t *port);
void join_jobs(struct phase *phase);
uint64_t run_jobs(struct phase *phase, int64_t until_ns);

int64_t uptime_ns(void);
int64_t epoch_ns(void);
void sleep_until(int64_t until_ns);
