// SPDX-License-Identifier: Apache-2.0
/* From a configuration to running VMs in one directory, and every way in which that is refused. */
#define _GNU_SOURCE
#include "setup.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "scratch.h"
#include "test.h"

static struct setup one, two;
static struct problem problem;

static int cpu_0(void)
{
    return 0;
}

/* Every CPU of this machine on socket 0, so that the map is complete wherever the tests run. */
static void map_own_cpus(char *text, size_t bytes)
{
    cpu_set_t allowed;
    size_t used = 0;
    sched_getaffinity(0, sizeof allowed, &allowed);
    for (int cpu = 0; cpu < CPU_SETSIZE && used + 12 < bytes; cpu++)
        if (CPU_ISSET(cpu, &allowed))
            used += (size_t)snprintf(text + used, bytes - used, "%d:0;", cpu);
}

static void prepare(struct setup *setup, const char *name)
{
    memset(setup, 0, sizeof *setup);
    config_set_defaults(&setup->config);
    strcpy(setup->config.dir, scratch_path("host"));
    strcpy(setup->config.name, name);
    map_own_cpus(setup->config.cpumap, sizeof setup->config.cpumap);
}

static bool start(struct setup *setup, uint32_t vcpu_count)
{
    return setup_vm(setup, vcpu_count, cpu_0, 1000, &problem);
}

static void release(struct setup *setup)
{
    struct model *model = &setup->vm.model;
    size_t llc_bytes = (size_t)model->llc[0].sets * model->llc[0].ways * sizeof(uint64_t);
    for (uint32_t i = 0; i < setup->vm.vcpu_count; i++) {
        free(setup->vm.vcpus[i].model.l1_lines);
        free(setup->vm.vcpus[i].model.l2.lines);
    }
    for (uint32_t socket = 0; socket < setup->file.header->socket_count; socket++) {
        free(model->shadow[socket].lines);
        munmap((char *)model->llc[socket].lines - sizeof(struct vpmu_llc_header),
               sizeof(struct vpmu_llc_header) + llc_bytes);
    }
    for (uint32_t node = 0; node < model->node_count; node++)
        if (model->controller[node])
            munmap(model->controller[node], sizeof(struct vpmu_mc));
    munmap(setup->file.header, sizeof *setup->file.header + setup->vm.vcpu_count * sizeof(struct vpmu_slot));
    if (setup->cpus)
        munmap(setup->cpus, sizeof *setup->cpus);
    directory_abandon(&setup->directory);
}

static void two_vms_share_a_directory(void)
{
    scratch_make();
    prepare(&one, "one");
    prepare(&two, "two");
    CHECK(start(&one, 2) && start(&two, 1));
    CHECK(scratch_has("host/vm.one") && scratch_has("host/vm.two"));
    CHECK(one.file.header->magic == VPMU_VM_MAGIC);
    CHECK(one.file.header->vm_id != two.file.header->vm_id);
    CHECK_EQUAL(one.file.header->sample, 8);
    CHECK_EQUAL(one.file.header->mhz, 60);
    CHECK_EQUAL(one.vm.model.controller[0]->capacity_lines_per_s, 80 * 60000);
    CHECK_EQUAL(one.file.slots[1].cpu, -1);
    setup_close(&one);
    CHECK(!scratch_has("host/vm.one") && scratch_has("host/vm.two"));
    release(&one);
    release(&two);
    scratch_remove();
}

static void two_sockets_on_one_node_have_two_llcs_and_one_controller(void)
{
    scratch_make();
    prepare(&one, "one");
    strcat(one.config.cpumap, "1023:1");
    strcpy(one.config.nodemap, "0:0;1:0");
    CHECK(start(&one, 1));
    CHECK(scratch_has("host/llc.0") && scratch_has("host/llc.1"));
    CHECK(scratch_has("host/mc.0") && !scratch_has("host/mc.1"));
    CHECK_EQUAL(one.file.header->socket_count, 2);
    CHECK_EQUAL(one.file.header->node_count, 1);
    CHECK_EQUAL(one.file.header->node_of_socket[1], 0);
    release(&one);
    scratch_remove();
}

static void a_socket_without_a_node_is_refused(void)
{
    scratch_make();
    prepare(&one, "one");
    strcat(one.config.cpumap, "1023:1");
    strcpy(one.config.nodemap, "0:0");
    CHECK(!start(&one, 1));
    CHECK_CONTAINS(problem.text, "socket 1 has no node");
    CHECK(!scratch_has("host/vm.one"));
    scratch_remove();
}

static void prepare_on_cpus(struct setup *setup, const char *name, uint32_t cpus)
{
    prepare(setup, name);
    strcpy(setup->config.cpumap, "0:0;1:0;2:1;3:1");
    setup->config.cpus = cpus;
}

static void vms_join_the_modelled_cpus_and_leave_them(void)
{
    scratch_make();
    prepare_on_cpus(&one, "one", 4);
    prepare_on_cpus(&two, "two", 4);
    CHECK(start(&one, 2) && start(&two, 3));
    CHECK_EQUAL(one.cpus->vcpus_of_vm[two.vm.model.vm_id], 3);
    CHECK(two.vm.vcpus[2].seat.entry == &two.cpus->entry[two.vm.model.vm_id][2]);
    setup_close(&two);
    CHECK_EQUAL(one.cpus->vcpus_of_vm[two.vm.model.vm_id], 0);
    CHECK_EQUAL(one.cpus->vcpus_of_vm[one.vm.model.vm_id], 2);
    release(&one);
    release(&two);
    scratch_remove();
}

static void the_siblings_of_the_configuration_are_those_of_the_table(void)
{
    scratch_make();
    prepare_on_cpus(&one, "one", 4);
    strcpy(one.config.siblings, "0:2;1:5"); /* CPU 5 is not modelled */
    CHECK(start(&one, 1));
    CHECK_EQUAL(one.cpus->cpu[0].sibling, 3);
    CHECK_EQUAL(one.cpus->cpu[2].sibling, 1);
    CHECK_EQUAL(one.cpus->cpu[1].sibling, 0);
    CHECK_EQUAL(one.vm.sibling_percent, 65);
    release(&one);
    strcpy(one.config.siblings, "0:0");
    CHECK(!start(&one, 1));
    CHECK_CONTAINS(problem.text, "cannot be one core");
    scratch_remove();
}

static void a_dead_vm_has_left_when_the_next_one_starts(void)
{
    scratch_make();
    prepare_on_cpus(&one, "one", 4);
    prepare_on_cpus(&two, "two", 4);
    CHECK(start(&one, 1) && start(&two, 1));
    uint32_t dead = two.vm.model.vm_id;
    release(&two); /* killed: its locks are gone, its entries are not */
    CHECK_EQUAL(one.cpus->vcpus_of_vm[dead], 1);
    prepare_on_cpus(&two, "three", 4);
    CHECK(start(&two, 1));
    CHECK_EQUAL(one.cpus->vcpus_of_vm[dead], 0);
    CHECK_EQUAL(one.cpus->vcpus_of_vm[one.vm.model.vm_id], 1);
    release(&one);
    release(&two);
    scratch_remove();
}

static void all_vms_have_the_same_number_of_modelled_cpus_and_all_are_mapped(void)
{
    scratch_make();
    prepare_on_cpus(&one, "one", 4);
    prepare_on_cpus(&two, "two", 3);
    CHECK(start(&one, 1));
    CHECK(!start(&two, 1));
    CHECK_CONTAINS(problem.text, "cpus: running VMs share it with other settings");
    CHECK(!scratch_has("host/vm.two"));
    prepare_on_cpus(&two, "two", 5);
    CHECK(!start(&two, 1));
    CHECK_CONTAINS(problem.text, "cpus=5: CPU 4 is not in the cpumap; add 4:SOCKET, or lower cpus");
    release(&one);
    scratch_remove();
}

static void bandwidth_can_be_switched_off(void)
{
    scratch_make();
    prepare(&one, "one");
    one.config.bandwidth = 0;
    CHECK(start(&one, 1));
    CHECK(!one.vm.model.controller[0]);
    CHECK(!scratch_has("host/mc.0"));
    release(&one);
    scratch_remove();
}

static void a_refused_vm_leaves_no_lock_and_no_file(void)
{
    scratch_make();
    prepare(&one, "one");
    prepare(&two, "two");
    two.config.bandwidth = 40;
    CHECK(start(&one, 1));
    CHECK(!start(&two, 1)); /* the LLC fits, the controller does not */
    CHECK_CONTAINS(problem.text, "mc.0: running VMs share it with other settings");
    CHECK(!scratch_has("host/vm.two"));
    release(&one);
    prepare(&one, "one");
    one.config.bandwidth = 40;
    one.config.model.sample = 4;
    CHECK(start(&one, 1)); /* nobody holds the files any more, the refused VM does not either */
    release(&one);
    scratch_remove();
}

static void too_many_vcpus_are_refused(void)
{
    scratch_make();
    prepare(&one, "one");
    CHECK(!start(&one, VPMU_MAX_VCPUS + 1));
    CHECK_CONTAINS(problem.text, "may have 65 vCPUs, vpmu models at most 64");
    CHECK(!start(&one, 0));
    scratch_remove();
}

static void a_bad_cpumap_is_refused(void)
{
    scratch_make();
    prepare(&one, "one");
    strcpy(one.config.cpumap, "0:9");
    CHECK(!start(&one, 1));
    CHECK_CONTAINS(problem.text, "socket below 8");
    scratch_remove();
}

static void the_error_of_a_vm_goes_when_it_starts_well(void)
{
    char text[64] = "";
    scratch_make();
    prepare(&one, "one");
    error_file_write(one.config.dir, "one", "sample=5: must be a power of two");
    error_file_write(one.config.dir, "one", "short"); /* replaces the longer one */
    CHECK(scratch_read("host/error.one", text, sizeof text - 1) == 6);
    CHECK(!strcmp(text, "short\n"));
    CHECK(start(&one, 1));
    CHECK(!scratch_has("host/error.one"));
    release(&one);
    scratch_remove();
}

const struct test setup_tests[] = {
    {"two VMs share a directory", two_vms_share_a_directory},
    {"two sockets on one node have two LLCs and one controller",
     two_sockets_on_one_node_have_two_llcs_and_one_controller},
    {"a socket without a node is refused", a_socket_without_a_node_is_refused},
    {"VMs join the modelled CPUs and leave them", vms_join_the_modelled_cpus_and_leave_them},
    {"the siblings of the configuration are the table's", the_siblings_of_the_configuration_are_those_of_the_table},
    {"a dead VM has left when the next one starts", a_dead_vm_has_left_when_the_next_one_starts},
    {"all VMs have the same number of modelled CPUs", all_vms_have_the_same_number_of_modelled_cpus_and_all_are_mapped},
    {"bandwidth can be switched off", bandwidth_can_be_switched_off},
    {"a refused VM leaves no lock and no file", a_refused_vm_leaves_no_lock_and_no_file},
    {"too many vCPUs are refused", too_many_vcpus_are_refused},
    {"a bad cpumap is refused", a_bad_cpumap_is_refused},
    {"the error of a VM goes when it starts well", the_error_of_a_vm_goes_when_it_starts_well},
    {NULL, NULL},
};
