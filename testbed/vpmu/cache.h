// SPDX-License-Identifier: Apache-2.0
/*
 * A set-associative, write-back cache of lines with true LRU: each set is an array, most recently used first.
 * Several threads and processes may touch one cache at once without a lock: a race can lose or double a line, which
 * a model survives, while a lock on every miss of every guest would not be affordable.
 */
#ifndef VPMU_CACHE_H
#define VPMU_CACHE_H

#include <stdbool.h>
#include <stdint.h>

/* A line is its tag in the low 48 bits, the memory node that a write-back goes to, and whether it was written. */
#define CACHE_TAG ((1ull << 48) - 1)
#define CACHE_NODE_SHIFT 48u
#define CACHE_DIRTY (1ull << 63)

struct cache {
    uint64_t *lines; /* sets * ways; 0 = empty */
    uint32_t sets;   /* a power of two */
    uint32_t ways;
};

/*
 * Looks the line's tag up in the set (taken modulo the number of sets) and makes it the most recent; true if it was
 * there. A dirty line stays dirty. On a miss `victim` gets the line that had to leave, 0 if none had.
 */
bool cache_touch(const struct cache *cache, uint32_t set, uint64_t line, uint64_t *victim);

/* Marks the line as written where it stands; false if it is not there. */
bool cache_write(const struct cache *cache, uint32_t set, uint64_t line);

#endif
