// SPDX-License-Identifier: Apache-2.0
#include "cpumap.h"
#include "scratch.h"
#include "test.h"

static struct cpumap map;
static struct problem problem;

static void pairs_are_read(void)
{
    CHECK(cpumap_parse(&map, "0:0;1:1 7:1", &problem));
    CHECK_EQUAL(map.socket_count, 2);
    CHECK_EQUAL(map.socket_of_cpu[0], 0);
    CHECK_EQUAL(map.socket_of_cpu[7], 1);
    CHECK_EQUAL(map.socket_of_cpu[2], CPUMAP_NONE);
}

static void bad_pairs_are_refused_by_name(void)
{
    static const char *const BAD[] = {"0", "0:", ":0", "a:0", "0:8", "1024:0", "-1:0", "0:0:0", "0:0;1:99999"};
    for (size_t i = 0; i < sizeof BAD / sizeof BAD[0]; i++) {
        CHECK(!cpumap_parse(&map, BAD[i], &problem));
        CHECK_CONTAINS(problem.text, "cpu below 1024 and socket below 8");
    }
    CHECK(!cpumap_parse(&map, " ; ", &problem));
    CHECK_CONTAINS(problem.text, "names no CPU");
}

static void sysfs_is_read(void)
{
    scratch_make();
    scratch_write_text("cpu0/topology/physical_package_id", "0\n");
    scratch_write_text("cpu12/topology/physical_package_id", "3\n");
    CHECK(cpumap_read(&map, scratch_path(""), &problem));
    CHECK_EQUAL(map.socket_count, 4);
    CHECK_EQUAL(map.socket_of_cpu[12], 3);
    CHECK_EQUAL(map.socket_of_cpu[1], CPUMAP_NONE);
    scratch_remove();
}

static void a_strange_sysfs_is_refused(void)
{
    scratch_make();
    CHECK(!cpumap_read(&map, scratch_path(""), &problem));
    CHECK_CONTAINS(problem.text, "no CPU topology below");
    scratch_write_text("cpu0/topology/physical_package_id", "-1\n");
    CHECK(!cpumap_read(&map, scratch_path(""), &problem));
    CHECK_CONTAINS(problem.text, "cpu0/topology/physical_package_id must hold a number below 8");
    scratch_remove();
}

static void a_cpu_that_is_missing_is_refused(void)
{
    CHECK(cpumap_parse(&map, "1023:0", &problem));
    CHECK(!cpumap_check_affinity(&map, &problem));
    CHECK_CONTAINS(problem.text, "which is not in the map");
}

const struct test cpumap_tests[] = {
    {"pairs are read", pairs_are_read},
    {"bad pairs are refused by name", bad_pairs_are_refused_by_name},
    {"sysfs is read", sysfs_is_read},
    {"a strange sysfs is refused", a_strange_sysfs_is_refused},
    {"a CPU that is missing is refused", a_cpu_that_is_missing_is_refused},
    {NULL, NULL},
};
