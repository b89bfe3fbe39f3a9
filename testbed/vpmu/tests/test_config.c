// SPDX-License-Identifier: Apache-2.0
#include "config.h"

#include <stdio.h>
#include <string.h>

#include "scratch.h"
#include "test.h"

static struct config config;
static struct problem problem;

struct refusal {
    const char *assignment;
    const char *says;
};

static void the_defaults_fit_together(void)
{
    config_set_defaults(&config);
    CHECK(config_check(&config, &problem));
    CHECK(!strcmp(config.dir, "/run/vpmu"));
    CHECK(!strcmp(config.cpumap, "auto"));
    CHECK(!strcmp(config.nodemap, "one-to-one"));
    CHECK_EQUAL(config.mhz, 60);
    CHECK_EQUAL(config.model.sample, 8);
    CHECK_EQUAL(config.bandwidth, 80);
}

static void values_are_taken(void)
{
    config_set_defaults(&config);
    CHECK(config_apply(&config, "sample=64", &problem));
    CHECK(config_apply(&config, " mhz = 0 ", &problem));
    CHECK(config_apply(&config, "dir=/dev/shm/a", &problem));
    CHECK(config_apply(&config, "mhz=5", &problem)); /* the later one wins */
    CHECK_EQUAL(config.model.sample, 64);
    CHECK_EQUAL(config.mhz, 5);
    CHECK(!strcmp(config.dir, "/dev/shm/a"));
}

static void every_bad_assignment_is_refused_with_key_value_and_limits(void)
{
    static const struct refusal REFUSALS[] = {
        {"smaple=8", "smaple: no such key; known are dir, name, cpumap, nodemap, siblings, l1_kib"},
        {"sample=5", "sample=5: must be a power of two from 1 to 64"},
        {"sample=0", "sample=0: must be"},
        {"sample=128", "sample=128: must be"},
        {"mhz=fast", "mhz=fast: must be a whole number from 0 to 10000"},
        {"mhz=-1", "mhz=-1: must be"},
        {"mhz= ", "mhz=: must be"},
        {"mhz=1.5", "mhz=1.5: must be"},
        {"mhz=0x10", "mhz=0x10: must be"},
        {"mhz=99999999999999999999999", "must be a whole number from 0 to 10000"},
        {"llc_ways=0", "llc_ways=0: must be a whole number from 1 to 64"},
        {"shadow=2", "shadow=2: must be a whole number from 0 to 1"},
        {"overlap=0", "overlap=0: must be"},
        {"dir=", "dir=: must have 1 to 1023 characters"},
        {"mhz", "mhz: must read key=value"},
        {"conf=/nowhere/vpmu.conf", "conf=/nowhere/vpmu.conf: cannot be read: No such file"},
        {"conf=/", "conf=/: cannot be read: Is a directory"},
    };
    for (size_t i = 0; i < sizeof REFUSALS / sizeof REFUSALS[0]; i++) {
        config_set_defaults(&config);
        CHECK(!config_apply(&config, REFUSALS[i].assignment, &problem));
        CHECK_CONTAINS(problem.text, REFUSALS[i].says);
    }
}

static void endless_values_are_refused(void)
{
    char text[4000] = "dir=";
    memset(text + 4, 'x', sizeof text - 5);
    config_set_defaults(&config);
    CHECK(!config_apply(&config, text, &problem));
    CHECK_CONTAINS(problem.text, "too long");
    text[1500] = 0;
    CHECK(!config_apply(&config, text, &problem));
    CHECK_CONTAINS(problem.text, "must have 1 to 1023 characters");
}

static void sizes_must_fit_each_other(void)
{
    static const struct refusal REFUSALS[] = {
        {"llc_kib=500", "llc_kib=500 with llc_ways=16: size / 64 bytes / ways must be a power of two"},
        {"llc_kib=384", "and here is 384.00"},
        {"llc_ways=15", "llc_kib=512 with llc_ways=15"},
        {"l2_ways=64", "l2_kib=32 with l2_ways=64: size / 64 bytes / ways must be a power of two of at least 64 sets"},
        {"l2_kib=4096", "llc_kib=512: must be at least l2_kib=4096"},
        {"latency_remote=100", "latency_remote=100: must be at least latency_local=200"},
    };
    for (size_t i = 0; i < sizeof REFUSALS / sizeof REFUSALS[0]; i++) {
        config_set_defaults(&config);
        CHECK(config_apply(&config, REFUSALS[i].assignment, &problem));
        CHECK(!config_check(&config, &problem));
        CHECK_CONTAINS(problem.text, REFUSALS[i].says);
    }
}

static void modelled_cpus_and_busy_stalls_exclude_each_other(void)
{
    config_set_defaults(&config);
    CHECK(config_apply(&config, "busy=1", &problem));
    CHECK(config_check(&config, &problem));
    CHECK(config_apply(&config, "cpus=8", &problem));
    CHECK(!config_check(&config, &problem));
    CHECK_CONTAINS(problem.text, "busy=1 with cpus=8");
    CHECK(!config_apply(&config, "cpus=257", &problem));
}

static void only_modelled_cpus_have_siblings(void)
{
    config_set_defaults(&config);
    CHECK(config_apply(&config, "siblings=0:1", &problem));
    CHECK(!config_check(&config, &problem));
    CHECK_CONTAINS(problem.text, "siblings=0:1: only modelled CPUs have some; set cpus too");
    CHECK(config_apply(&config, "cpus=2", &problem));
    CHECK(config_check(&config, &problem));
}

static bool apply_file(const char *text)
{
    char assignment[SCRATCH_PATH_BYTES + 8];
    scratch_write_text("vpmu.conf", text);
    snprintf(assignment, sizeof assignment, "conf=%s", scratch_path("vpmu.conf"));
    config_set_defaults(&config);
    return config_apply(&config, assignment, &problem);
}

static void a_file_has_one_key_a_line(void)
{
    scratch_make();
    CHECK(apply_file("# comment\n\n mhz = 30\nllc_kib=1024"));
    CHECK_EQUAL(config.mhz, 30);
    CHECK_EQUAL(config.model.llc_kib, 1024);
    scratch_remove();
}

static void a_bad_file_names_the_line_and_is_read_to_its_end(void)
{
    scratch_make();
    CHECK(!apply_file("mhz=30\nsample=7\nnonsense\ndir=/dev/shm/b\n"));
    CHECK_CONTAINS(problem.text, "vpmu.conf line 2: sample=7: must be a power of two");
    CHECK(!strcmp(config.dir, "/dev/shm/b")); /* that is where the refusal will be told */
    CHECK(!apply_file("conf=/other\n"));
    CHECK_CONTAINS(problem.text, "line 1: conf: no such key");
    scratch_remove();
}

const struct test config_tests[] = {
    {"the defaults fit together", the_defaults_fit_together},
    {"values are taken", values_are_taken},
    {"every bad assignment is refused", every_bad_assignment_is_refused_with_key_value_and_limits},
    {"endless values are refused", endless_values_are_refused},
    {"sizes must fit each other", sizes_must_fit_each_other},
    {"modelled CPUs and busy stalls exclude each other", modelled_cpus_and_busy_stalls_exclude_each_other},
    {"only modelled CPUs have siblings", only_modelled_cpus_have_siblings},
    {"a file has one key a line", a_file_has_one_key_a_line},
    {"a bad file names the line", a_bad_file_names_the_line_and_is_read_to_its_end},
    {NULL, NULL},
};
