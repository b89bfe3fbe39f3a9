// SPDX-License-Identifier: Apache-2.0
#include "cache.h"

#include <stddef.h>

static uint64_t load(const uint64_t *line)
{
    return __atomic_load_n(line, __ATOMIC_RELAXED);
}

static void store(uint64_t *line, uint64_t value)
{
    __atomic_store_n(line, value, __ATOMIC_RELAXED);
}

static bool is_same(uint64_t line, uint64_t other)
{
    return !((line ^ other) & CACHE_TAG);
}

static uint64_t *ways_of(const struct cache *cache, uint32_t set)
{
    return cache->lines + (size_t)(set & (cache->sets - 1)) * cache->ways;
}

bool cache_touch(const struct cache *cache, uint32_t set, uint64_t line, uint64_t *victim)
{
    uint64_t *way = ways_of(cache, set);
    uint64_t moved = load(way);
    if (is_same(moved, line)) {
        if (line & ~moved & CACHE_DIRTY)
            store(way, moved | CACHE_DIRTY);
        return true;
    }
    store(way, line);
    /* Everything more recent than the hit (or, on a miss, everything) grows older by one place. */
    for (uint32_t i = 1; i < cache->ways; i++) {
        uint64_t older = load(way + i);
        store(way + i, moved);
        if (is_same(older, line)) {
            store(way, older | (line & CACHE_DIRTY));
            return true;
        }
        moved = older;
    }
    *victim = moved;
    return false;
}

bool cache_write(const struct cache *cache, uint32_t set, uint64_t line)
{
    uint64_t *way = ways_of(cache, set);
    for (uint32_t i = 0; i < cache->ways; i++) {
        uint64_t found = load(way + i);
        if (!is_same(found, line))
            continue;
        store(way + i, found | CACHE_DIRTY);
        return true;
    }
    return false;
}
