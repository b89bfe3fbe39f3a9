// SPDX-License-Identifier: Apache-2.0
/* The least that a C test needs: CHECK says where and what failed and goes on; each file offers one table of tests. */
#ifndef VPMU_TEST_H
#define VPMU_TEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct test {
    const char *name;
    void (*run)(void);
};

void test_check(bool is_true, const char *file, int line, const char *what);
void test_check_number(double is, double low, double high, const char *file, int line, const char *what);
void test_check_text(const char *is, const char *part, const char *file, int line);

#define CHECK(condition) test_check((condition), __FILE__, __LINE__, #condition)
#define CHECK_EQUAL(is, expected) test_check_number((double)(is), (double)(expected), (double)(expected), __FILE__, __LINE__, #is)
#define CHECK_BETWEEN(is, low, high) test_check_number((double)(is), (low), (high), __FILE__, __LINE__, #is)
#define CHECK_CONTAINS(text, part) test_check_text((text), (part), __FILE__, __LINE__)

#define TEST_TABLES(X) \
    X(boot_tests) X(cache_tests) X(cgroup_tests) X(claim_tests) X(config_tests) X(controller_tests) \
    X(cpumap_tests) X(cpumask_tests) X(cpus_tests) X(directory_tests) \
    X(guest_name_tests) X(model_tests) X(nodemap_tests) X(pace_tests) X(quota_tests) X(rates_tests) \
    X(setup_tests) X(sharing_tests) X(siblings_tests) X(vm_tests)

#define DECLARE(table) extern const struct test table[];
TEST_TABLES(DECLARE)
#undef DECLARE

#endif
