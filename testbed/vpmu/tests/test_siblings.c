// SPDX-License-Identifier: Apache-2.0
#include "siblings.h"

#include <stdio.h>

#include "scratch.h"
#include "test.h"

static struct siblings siblings;
static struct problem problem;

static bool parse(const char *text)
{
    return siblings_read(&siblings, text, "/nowhere", &problem);
}

static void write_list(unsigned int cpu, const char *list)
{
    char name[64];
    snprintf(name, sizeof name, "cpu%u/topology/thread_siblings_list", cpu);
    scratch_write_text(name, list);
}

static bool read_scratch(void)
{
    return siblings_read(&siblings, "auto", scratch_path(""), &problem);
}

static void pairs_are_read(void)
{
    CHECK(parse("0:8;1:9 3:2"));
    CHECK_EQUAL(siblings.of_cpu[0], 9);
    CHECK_EQUAL(siblings.of_cpu[8], 1);
    CHECK_EQUAL(siblings.of_cpu[2], 4);
    CHECK_EQUAL(siblings.of_cpu[4], 0);
    CHECK(parse("none"));
    CHECK_EQUAL(siblings.of_cpu[0], 0);
}

static void bad_pairs_are_refused(void)
{
    static const char *const BAD[] = {"0", "0:", ":1", "a:1", "0:1024", "1024:0", "0:1:2", "-1:0"};
    for (size_t i = 0; i < sizeof BAD / sizeof BAD[0]; i++) {
        CHECK(!parse(BAD[i]));
        CHECK_CONTAINS(problem.text, "must be cpu:cpu below 1024");
    }
    CHECK(!parse("0:0"));
    CHECK_CONTAINS(problem.text, "CPUs 0 and 0 cannot be one core");
    CHECK(!parse("0:1;1:2"));
    CHECK_CONTAINS(problem.text, "CPUs 1 and 2 cannot be one core");
    CHECK(!parse("0:1;2:1"));
}

static void sysfs_is_read(void)
{
    scratch_make();
    CHECK(read_scratch());
    write_list(0, "0,8\n");
    write_list(8, "0,8\n");
    write_list(2, "2-3\n");
    write_list(3, "2-3\n");
    write_list(5, "5\n");
    CHECK(read_scratch());
    CHECK_EQUAL(siblings.of_cpu[0], 9);
    CHECK_EQUAL(siblings.of_cpu[8], 1);
    CHECK_EQUAL(siblings.of_cpu[3], 3);
    CHECK_EQUAL(siblings.of_cpu[5], 0);
    scratch_remove();
}

static void cores_of_more_threads_and_strange_lists_are_refused(void)
{
    static const char *const BAD[] = {"0-3\n", "0,4,8\n", "0-2\n", "1,2\n", "4\n", "", "x\n", "0,1024\n"};
    for (size_t i = 0; i < sizeof BAD / sizeof BAD[0]; i++) {
        scratch_make();
        write_list(0, BAD[i]);
        CHECK(!read_scratch());
        CHECK_CONTAINS(problem.text, "two threads of a core are modelled");
        scratch_remove();
    }
}

const struct test siblings_tests[] = {
    {"pairs are read", pairs_are_read},
    {"bad pairs are refused", bad_pairs_are_refused},
    {"sysfs is read", sysfs_is_read},
    {"cores of more threads and strange lists are refused", cores_of_more_threads_and_strange_lists_are_refused},
    {NULL, NULL},
};
