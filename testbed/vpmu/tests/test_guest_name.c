// SPDX-License-Identifier: Apache-2.0
#include "guest_name.h"

#include <string.h>

#include "test.h"

struct row {
    const char *arguments;
    size_t bytes;
    const char *name; /* NULL: none */
};

#define ROW(text, name) {text, sizeof(text), name}

static void the_name_is_found_in_the_command_line(void)
{
    static const struct row ROWS[] = {
        ROW("qemu\0-name\0guest=instance-00000001,debug-threads=on\0-S", "instance-00000001"),
        ROW("qemu\0-name\0debug-threads=on,guest=b\0-S", "b"),
        ROW("qemu\0-S\0-name\0plain", "plain"),
        ROW("qemu\0-name\0guest=a,,b,debug-threads=on", "a,b"),
        ROW("qemu\0-S", NULL),
        ROW("qemu\0-name", NULL),
        ROW("", NULL),
    };
    for (size_t i = 0; i < sizeof ROWS / sizeof ROWS[0]; i++) {
        char name[VPMU_NAME_BYTES] = "";
        CHECK(guest_name_find(ROWS[i].arguments, ROWS[i].bytes, name) == (ROWS[i].name != NULL));
        CHECK(!ROWS[i].name || !strcmp(name, ROWS[i].name));
    }
}

static void a_long_name_is_cut_to_its_buffer(void)
{
    char arguments[2000] = "-name", name[VPMU_NAME_BYTES];
    memset(arguments + 6, 'x', 1000);
    CHECK(guest_name_find(arguments, sizeof arguments, name));
    CHECK_EQUAL(strlen(name), VPMU_NAME_BYTES - 1);
}

static void names_that_are_no_file_names_are_refused(void)
{
    struct problem problem;
    char longest[VPMU_NAME_BYTES] = "";
    memset(longest, 'x', 249);
    CHECK(guest_name_check(longest, &problem));
    longest[249] = 'x';
    CHECK(!guest_name_check(longest, &problem));
    CHECK(!guest_name_check("", &problem));
    CHECK(!guest_name_check("../a", &problem));
    CHECK_CONTAINS(problem.text, "name=../a");
    CHECK_CONTAINS(problem.text, "no slash");
}

const struct test guest_name_tests[] = {
    {"the name is found in the command line", the_name_is_found_in_the_command_line},
    {"a long name is cut to its buffer", a_long_name_is_cut_to_its_buffer},
    {"names that are no file names are refused", names_that_are_no_file_names_are_refused},
    {NULL, NULL},
};
