// SPDX-License-Identifier: Apache-2.0
#include "cache.h"
#include "test.h"

static uint64_t victim;

static bool touch(const struct cache *cache, uint32_t set, uint64_t line)
{
    victim = 0;
    return cache_touch(cache, set, line, &victim);
}

static void the_least_recently_used_leaves(void)
{
    uint64_t lines[4] = {0};
    struct cache cache = {lines, 1, 4};
    for (uint64_t tag = 1; tag <= 4; tag++)
        CHECK(!touch(&cache, 0, tag));
    CHECK(touch(&cache, 0, 1)); /* now 2 is the oldest */
    CHECK(!touch(&cache, 0, 5));
    CHECK(!touch(&cache, 0, 2));
    CHECK(touch(&cache, 0, 1));
    CHECK(touch(&cache, 0, 5));
}

static void order_is_most_recent_first(void)
{
    uint64_t lines[4] = {0};
    struct cache cache = {lines, 1, 4};
    for (uint64_t tag = 1; tag <= 4; tag++)
        touch(&cache, 0, tag);
    touch(&cache, 0, 2);
    CHECK_EQUAL(lines[0], 2);
    CHECK_EQUAL(lines[1], 4);
    CHECK_EQUAL(lines[2], 3);
    CHECK_EQUAL(lines[3], 1);
}

static void sets_are_separate_and_wrap(void)
{
    uint64_t lines[8] = {0};
    struct cache cache = {lines, 4, 2};
    CHECK(!touch(&cache, 1, 7));
    CHECK(!touch(&cache, 2, 7));
    CHECK(touch(&cache, 5, 7));
    CHECK_EQUAL(lines[2], 7);
    CHECK_EQUAL(lines[4], 7);
}

static void one_way_is_direct_mapped(void)
{
    uint64_t lines[2] = {0};
    struct cache cache = {lines, 2, 1};
    CHECK(!touch(&cache, 0, 1));
    CHECK(touch(&cache, 0, 1));
    CHECK(!touch(&cache, 0, 2));
    CHECK(!touch(&cache, 0, 1));
}

static void a_written_line_stays_dirty_until_it_leaves(void)
{
    uint64_t lines[2] = {0};
    struct cache cache = {lines, 1, 2};
    const uint64_t node = 3ull << CACHE_NODE_SHIFT;
    CHECK(!touch(&cache, 0, 1 | node | CACHE_DIRTY));
    CHECK(!touch(&cache, 0, 2));
    CHECK(touch(&cache, 0, 1)); /* reading it again does not clean it, nor does another's node */
    CHECK(!touch(&cache, 0, 3));
    CHECK_EQUAL(victim, 2);
    CHECK(!touch(&cache, 0, 4));
    CHECK(victim == (1 | node | CACHE_DIRTY));
}

static void a_line_is_written_where_it_stands(void)
{
    uint64_t lines[2] = {0};
    struct cache cache = {lines, 1, 2};
    touch(&cache, 0, 1);
    touch(&cache, 0, 2);
    CHECK(cache_write(&cache, 0, 1));
    CHECK(!cache_write(&cache, 0, 7));
    CHECK_EQUAL(lines[0], 2); /* writing back is no use of the line */
    touch(&cache, 0, 3);
    CHECK(victim == (1 | CACHE_DIRTY));
}

const struct test cache_tests[] = {
    {"the least recently used leaves", the_least_recently_used_leaves},
    {"order is most recent first", order_is_most_recent_first},
    {"sets are separate and wrap", sets_are_separate_and_wrap},
    {"one way is direct-mapped", one_way_is_direct_mapped},
    {"a written line stays dirty until it leaves", a_written_line_stays_dirty_until_it_leaves},
    {"a line is written where it stands", a_line_is_written_where_it_stands},
    {NULL, NULL},
};
