// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <string.h>

#include "test.h"

static int checks, failures;

void test_check(bool is_true, const char *file, int line, const char *what)
{
    checks++;
    if (is_true)
        return;
    failures++;
    printf("%s:%d: not true: %s\n", file, line, what);
}

void test_check_number(double is, double low, double high, const char *file, int line, const char *what)
{
    checks++;
    if (is >= low && is <= high)
        return;
    failures++;
    printf("%s:%d: %s is %g, expected %g to %g\n", file, line, what, is, low, high);
}

void test_check_text(const char *is, const char *part, const char *file, int line)
{
    checks++;
    if (strstr(is, part))
        return;
    failures++;
    printf("%s:%d: \"%s\" does not contain \"%s\"\n", file, line, is, part);
}

#define TABLE(table) table,
static const struct test *const TABLES[] = {TEST_TABLES(TABLE)};

int main(void)
{
    int tests = 0;
    for (size_t i = 0; i < sizeof TABLES / sizeof TABLES[0]; i++)
        for (const struct test *test = TABLES[i]; test->name; test++, tests++) {
            int before = failures;
            test->run();
            if (failures > before)
                printf("FAILED: %s\n", test->name);
        }
    printf("%d tests, %d checks, %d failures\n", tests, checks, failures);
    return failures ? 1 : 0;
}
