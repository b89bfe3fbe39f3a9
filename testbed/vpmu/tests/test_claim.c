// SPDX-License-Identifier: Apache-2.0
#include "claim.h"

#include <stdio.h>
#include <string.h>

#include "cpumask.h"
#include "scratch.h"
#include "test.h"

static char process[SCRATCH_PATH_BYTES], cgroups[SCRATCH_PATH_BYTES], directory[SCRATCH_PATH_BYTES];
static struct claim_source source;
static struct claim_thread thread;
static struct cpus_claim claim;

static void write_thread(int tid, int started)
{
    char name[64], text[256];
    snprintf(name, sizeof name, "self/task/%d/stat", tid);
    snprintf(text, sizeof text, "%d (CPU 0/KVM (x)) S 1 1 1 0 -1 4194560 1 0 0 0 5 6 0 0 20 0 3 0 %d 99 100 x\n", tid,
             started);
    scratch_write_text(name, text);
}

/* QEMU is 100, its vCPU thread 101. */
static void start(void)
{
    scratch_make();
    strcpy(process, scratch_path("self"));
    strcpy(cgroups, scratch_path("cg"));
    strcpy(directory, scratch_path("host"));
    source = (struct claim_source){process, cgroups, directory, 8};
    write_thread(100, 5000);
    write_thread(101, 5007);
    claim_begin(&thread, &source, 100, 101);
}

static bool may_run_on(const char *cpus)
{
    struct vpmu_cpumask expected = cpumask_parse(cpus, 8);
    claim_read(&thread, &source, &claim);
    return !memcmp(&claim.allowed, &expected, sizeof expected);
}

static void a_thread_without_a_record_may_run_everywhere(void)
{
    start();
    CHECK_EQUAL(thread.tid_started_ticks, 5007);
    CHECK(may_run_on("0-7"));
    CHECK_EQUAL(claim.weight, 1024);
    scratch_remove();
}

static void a_record_is_honoured_when_it_changes(void)
{
    start();
    scratch_write_text("host/affinity/101", "5007 2-3\n");
    CHECK(may_run_on("2-3"));
    scratch_write_text("host/affinity/101", "5007 6\n");
    CHECK(may_run_on("6"));
    scratch_remove();
}

static void the_record_of_an_earlier_thread_with_its_tid_is_not(void)
{
    start();
    scratch_write_text("host/affinity/101", "4990 2-3\n");
    CHECK(may_run_on("0-7"));
    scratch_remove();
}

static void a_thread_inherits_what_its_process_had_when_it_began(void)
{
    start();
    scratch_write_text("host/affinity/100", "5000 4-7\n");
    CHECK(may_run_on("4-7"));
    scratch_write_text("host/affinity/100", "5000 0\n"); /* the emulator's, later */
    CHECK(may_run_on("4-7"));
    scratch_remove();
}

static void a_spoilt_record_counts_as_none(void)
{
    start();
    scratch_write_text("host/affinity/101", "5007");
    CHECK(may_run_on("0-7"));
    scratch_write_text("host/affinity/101", "5007 x\n");
    CHECK(may_run_on("0-7"));
    scratch_write_text("host/affinity/101", "5007 9-12\n"); /* none of them is modelled */
    CHECK(may_run_on("0-7"));
    scratch_remove();
}

static void cgroups_are_those_of_the_thread(void)
{
    start();
    scratch_write_text("self/task/101/cgroup", "2:cpu:/vm/vcpu0\n");
    scratch_write_text("cg/cpu/vm/cpu.shares", "4096\n");
    claim_read(&thread, &source, &claim);
    CHECK_EQUAL(claim.vm_weight, 4096);
    CHECK_CONTAINS(claim.vm_group, "/vm");
    scratch_remove();
}

static void a_small_quota_is_not_spent_on_reading_it(void)
{
    struct claim_clock clock = {.read_ns = 1, .read_cpu_ns = 7, .cost_ns = 400000};
    CHECK(claim_is_due(&(struct claim_clock){0}, 1, 0));
    CHECK(!claim_is_due(&clock, CLAIM_EVERY_NS, 7 + CLAIM_COSTS * 400000));
    CHECK(claim_is_due(&clock, 1 + CLAIM_EVERY_NS, 7 + CLAIM_COSTS * 400000));
    CHECK(!claim_is_due(&clock, 1 + CLAIM_EVERY_NS, 6 + CLAIM_COSTS * 400000));
    CHECK(!claim_is_due(&clock, CLAIM_LATEST_NS, 8));
    CHECK(claim_is_due(&clock, 1 + CLAIM_LATEST_NS, 8));
}

const struct test claim_tests[] = {
    {"a small quota is not spent on reading it", a_small_quota_is_not_spent_on_reading_it},
    {"a thread without a record may run everywhere", a_thread_without_a_record_may_run_everywhere},
    {"a record is honoured when it changes", a_record_is_honoured_when_it_changes},
    {"the record of an earlier thread with its tid is not", the_record_of_an_earlier_thread_with_its_tid_is_not},
    {"a thread inherits what its process had", a_thread_inherits_what_its_process_had_when_it_began},
    {"a spoilt record counts as none", a_spoilt_record_counts_as_none},
    {"cgroups are those of the thread", cgroups_are_those_of_the_thread},
    {NULL, NULL},
};
