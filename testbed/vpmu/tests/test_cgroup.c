// SPDX-License-Identifier: Apache-2.0
/* Trees as libvirt makes them, below a folder of the test. */
#include "cgroup.h"

#include <string.h>

#include "scratch.h"
#include "test.h"

static struct cpus_claim claim;

static void read_as(const char *membership)
{
    claim = (struct cpus_claim){.weight = CPUS_STANDARD_WEIGHT, .vm_weight = CPUS_STANDARD_WEIGHT};
    cgroup_read(&claim, scratch_path("cg"), membership);
}

static void version_1_has_the_vcpus_quota_in_its_group_and_the_vms_above(void)
{
    scratch_make();
    scratch_write_text("cg/cpu,cpuacct/machine/vm/vcpu0/cpu.shares", "512\n");
    scratch_write_text("cg/cpu,cpuacct/machine/vm/vcpu0/cpu.cfs_quota_us", "30000\n");
    scratch_write_text("cg/cpu,cpuacct/machine/vm/vcpu0/cpu.cfs_period_us", "100000\n");
    scratch_write_text("cg/cpu,cpuacct/machine/vm/cpu.shares", "2048\n");
    scratch_write_text("cg/cpu,cpuacct/machine/vm/cpu.cfs_quota_us", "150000\n");
    scratch_write_text("cg/cpu,cpuacct/machine/vm/cpu.cfs_period_us", "50000\n");
    scratch_write_text("cg/cpu,cpuacct/machine/cpu.shares", "1024\n");
    scratch_write_text("cg/cpu,cpuacct/machine/cpu.cfs_quota_us", "-1\n");
    scratch_write_text("cg/cpu,cpuacct/machine/cpu.cfs_period_us", "100000\n");
    read_as("7:cpuset:/elsewhere\n4:cpu,cpuacct:/machine/vm/vcpu0\n0::/\n");
    CHECK_EQUAL(claim.weight, 512);
    CHECK_EQUAL(claim.quota_us, 30000);
    CHECK_EQUAL(claim.period_us, 100000);
    CHECK_EQUAL(claim.vm_weight, 2048);
    CHECK_EQUAL(claim.vm_quota_us, 150000);
    CHECK_EQUAL(claim.vm_period_us, 50000);
    CHECK(!strcmp(claim.vm_group, "/machine/vm"));
    scratch_remove();
}

static void version_2_says_the_same_in_its_own_units(void)
{
    scratch_make();
    scratch_write_text("cg/machine.slice/vm.scope/libvirt/vcpu1/cpu.weight", "50\n");
    scratch_write_text("cg/machine.slice/vm.scope/libvirt/vcpu1/cpu.max", "30000 100000\n");
    scratch_write_text("cg/machine.slice/vm.scope/libvirt/cpu.weight", "100\n");
    scratch_write_text("cg/machine.slice/vm.scope/libvirt/cpu.max", "max 100000\n");
    scratch_write_text("cg/machine.slice/vm.scope/cpu.weight", "200\n");
    scratch_write_text("cg/machine.slice/vm.scope/cpu.max", "120000 100000\n");
    read_as("0::/machine.slice/vm.scope/libvirt/vcpu1\n");
    CHECK_EQUAL(claim.weight, 512);
    CHECK_EQUAL(claim.quota_us, 30000);
    CHECK_EQUAL(claim.vm_weight, 2048);
    CHECK_EQUAL(claim.vm_quota_us, 120000);
    CHECK(!strcmp(claim.vm_group, "/machine.slice/vm.scope")); /* the one that has the quota */
    scratch_remove();
}

static void without_a_group_per_vcpu_all_is_the_vms_and_the_tightest_quota_holds(void)
{
    scratch_make();
    scratch_write_text("cg/cpu/tests/vm/cpu.cfs_quota_us", "80000\n");
    scratch_write_text("cg/cpu/tests/vm/cpu.cfs_period_us", "100000\n");
    scratch_write_text("cg/cpu/tests/cpu.cfs_quota_us", "10000\n");
    scratch_write_text("cg/cpu/tests/cpu.cfs_period_us", "20000\n");
    read_as("3:cpu:/tests/vm\n");
    CHECK_EQUAL(claim.quota_us, 0);
    CHECK_EQUAL(claim.weight, 1024);
    CHECK_EQUAL(claim.vm_quota_us, 10000);
    CHECK_EQUAL(claim.vm_period_us, 20000);
    CHECK(!strcmp(claim.vm_group, "/tests"));
    scratch_remove();
}

static void what_cannot_be_read_stays_as_it_was(void)
{
    scratch_make();
    read_as("");
    CHECK_EQUAL(claim.vm_weight, 1024);
    read_as("3:memory:/x\ngarbage\n");
    CHECK_EQUAL(claim.vm_weight, 1024);
    read_as("3:cpu:/nowhere/vcpu0\n");
    CHECK_EQUAL(claim.weight, 1024);
    CHECK_EQUAL(claim.vm_weight, 1024);
    CHECK_EQUAL(claim.quota_us + claim.vm_quota_us, 0);
    read_as("0::/\n");
    CHECK_EQUAL(claim.vm_weight, 1024);
    scratch_remove();
}

const struct test cgroup_tests[] = {
    {"version 1", version_1_has_the_vcpus_quota_in_its_group_and_the_vms_above},
    {"version 2", version_2_says_the_same_in_its_own_units},
    {"without a group per vCPU", without_a_group_per_vcpu_all_is_the_vms_and_the_tightest_quota_holds},
    {"what cannot be read stays as it was", what_cannot_be_read_stays_as_it_was},
    {NULL, NULL},
};
