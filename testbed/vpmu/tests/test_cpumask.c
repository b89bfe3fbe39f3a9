// SPDX-License-Identifier: Apache-2.0
#include "cpumask.h"

#include "test.h"

static bool is_just(const char *text, uint32_t cpu_count, const char *expected)
{
    struct vpmu_cpumask mask = cpumask_parse(text, cpu_count);
    for (uint32_t cpu = 0; cpu < VPMU_MAX_MODELLED_CPUS + 10; cpu++)
        if (cpumask_has(&mask, cpu) != (cpu < 16 && expected[cpu] == 'x'))
            return false;
    return true;
}

static void lists_are_read_as_the_kernel_writes_them(void)
{
    CHECK(is_just("0\n", 8, "x...............") );
    CHECK(is_just("0-3,6\n", 8, "xxxx..x........."));
    CHECK(is_just("6-20", 8, "......xx........")); /* what is not modelled is left out */
    CHECK(is_just("9", 8, "................"));
}

static void what_is_no_list_is_empty(void)
{
    CHECK(is_just("", 8, "................"));
    CHECK(is_just("none", 8, "................"));
    CHECK(is_just("1,x", 8, "................"));
    CHECK(is_just("5-2", 8, "................"));
    CHECK(is_just("-1", 8, "................"));
    CHECK(is_just("99999999999999999999", 8, "................"));
}

static void masks_reach_beyond_one_word(void)
{
    struct vpmu_cpumask mask = cpumask_parse("63-64,255", 256);
    CHECK(cpumask_has(&mask, 63) && cpumask_has(&mask, 64) && cpumask_has(&mask, 255));
    CHECK(!cpumask_has(&mask, 62) && !cpumask_has(&mask, 65));
    mask = cpumask_all(256);
    CHECK(cpumask_has(&mask, 255) && !cpumask_has(&mask, 256));
    mask = cpumask_all(0);
    CHECK(cpumask_is_empty(&mask));
}

const struct test cpumask_tests[] = {
    {"lists are read as the kernel writes them", lists_are_read_as_the_kernel_writes_them},
    {"what is no list is empty", what_is_no_list_is_empty},
    {"masks reach beyond one word", masks_reach_beyond_one_word},
    {NULL, NULL},
};
