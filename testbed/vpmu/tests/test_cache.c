// SPDX-License-Identifier: Apache-2.0
#include "cache.h"
#include "test.h"

static void the_least_recently_used_leaves(void)
{
    uint32_t tags[4] = {0};
    struct cache cache = {tags, 1, 4};
    for (uint32_t tag = 1; tag <= 4; tag++)
        CHECK(!cache_touch(&cache, 0, tag));
    CHECK(cache_touch(&cache, 0, 1)); /* now 2 is the oldest */
    CHECK(!cache_touch(&cache, 0, 5));
    CHECK(!cache_touch(&cache, 0, 2));
    CHECK(cache_touch(&cache, 0, 1));
    CHECK(cache_touch(&cache, 0, 5));
}

static void order_is_most_recent_first(void)
{
    uint32_t tags[4] = {0};
    struct cache cache = {tags, 1, 4};
    for (uint32_t tag = 1; tag <= 4; tag++)
        cache_touch(&cache, 0, tag);
    cache_touch(&cache, 0, 2);
    CHECK_EQUAL(tags[0], 2);
    CHECK_EQUAL(tags[1], 4);
    CHECK_EQUAL(tags[2], 3);
    CHECK_EQUAL(tags[3], 1);
}

static void sets_are_separate_and_wrap(void)
{
    uint32_t tags[8] = {0};
    struct cache cache = {tags, 4, 2};
    CHECK(!cache_touch(&cache, 1, 7));
    CHECK(!cache_touch(&cache, 2, 7));
    CHECK(cache_touch(&cache, 5, 7));
    CHECK_EQUAL(tags[2], 7);
    CHECK_EQUAL(tags[4], 7);
}

static void one_way_is_direct_mapped(void)
{
    uint32_t tags[2] = {0};
    struct cache cache = {tags, 2, 1};
    CHECK(!cache_touch(&cache, 0, 1));
    CHECK(cache_touch(&cache, 0, 1));
    CHECK(!cache_touch(&cache, 0, 2));
    CHECK(!cache_touch(&cache, 0, 1));
}

const struct test cache_tests[] = {
    {"the least recently used leaves", the_least_recently_used_leaves},
    {"order is most recent first", order_is_most_recent_first},
    {"sets are separate and wrap", sets_are_separate_and_wrap},
    {"one way is direct-mapped", one_way_is_direct_mapped},
    {NULL, NULL},
};
