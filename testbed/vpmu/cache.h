// SPDX-License-Identifier: Apache-2.0
/*
 * A set-associative cache of tags with true LRU: each set is an array, most recently used first.
 * Several threads and processes may touch one cache at once without a lock: a race can lose or double a tag, which
 * a model survives, while a lock on every miss of every guest would not be affordable.
 */
#ifndef VPMU_CACHE_H
#define VPMU_CACHE_H

#include <stdbool.h>
#include <stdint.h>

struct cache {
    uint32_t *tags; /* sets * ways; 0 = empty */
    uint32_t sets;  /* a power of two */
    uint32_t ways;
};

/* Looks `tag` up in the set (taken modulo the number of sets) and makes it the most recent; true if it was there. */
bool cache_touch(const struct cache *cache, uint32_t set, uint32_t tag);

#endif
