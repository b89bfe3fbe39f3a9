// SPDX-License-Identifier: Apache-2.0
#include "cache.h"

#include <stddef.h>

static uint32_t load(const uint32_t *tag)
{
    return __atomic_load_n(tag, __ATOMIC_RELAXED);
}

static void store(uint32_t *tag, uint32_t value)
{
    __atomic_store_n(tag, value, __ATOMIC_RELAXED);
}

bool cache_touch(const struct cache *cache, uint32_t set, uint32_t tag)
{
    uint32_t *way = cache->tags + (size_t)(set & (cache->sets - 1)) * cache->ways;
    uint32_t moved = load(way);
    if (moved == tag)
        return true;
    store(way, tag);
    /* Everything more recent than the hit (or, on a miss, everything) grows older by one place. */
    for (uint32_t i = 1; i < cache->ways; i++) {
        uint32_t older = load(way + i);
        store(way + i, moved);
        if (older == tag)
            return true;
        moved = older;
    }
    return false;
}
