// SPDX-License-Identifier: Apache-2.0
/* The files of a modelled host. A second VM is a second struct directory: locks belong to open files, not processes. */
#include "directory.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "scratch.h"
#include "test.h"

static const struct vpmu_llc_header SHAPE = {
    .magic = VPMU_LLC_MAGIC, .version = VPMU_VERSION, .header_bytes = sizeof SHAPE,
    .sets = 64, .ways = 2, .sample = 1,
};

static struct directory first, second;
static struct problem problem;
static char path[SCRATCH_PATH_BYTES];

static void start(void)
{
    scratch_make();
    strcpy(path, scratch_path("host"));
    CHECK(directory_open(&first, path, &problem));
    directory_unlock(&first);
    CHECK(directory_open(&second, path, &problem));
    directory_unlock(&second);
}

static void stop(void)
{
    directory_abandon(&first);
    directory_abandon(&second);
    scratch_remove();
}

static void unmap_llc(uint64_t *lines)
{
    munmap((char *)lines - sizeof SHAPE, sizeof SHAPE + 64 * 2 * sizeof(uint64_t));
}

static void unmap_vm(struct vm_file *file)
{
    munmap(file->header, sizeof *file->header + file->header->vcpu_count * sizeof(struct vpmu_slot));
}

static void the_directory_is_made_for_everybody(void)
{
    struct stat status;
    start();
    CHECK(!stat(path, &status));
    CHECK_EQUAL(status.st_mode & 07777, 01777);
    stop();
}

static void a_directory_that_cannot_be_used_is_refused(void)
{
    scratch_make();
    scratch_write_text("file", "");
    CHECK(!directory_open(&first, scratch_path("file"), &problem));
    CHECK_CONTAINS(problem.text, "Not a directory");
    CHECK(!directory_open(&first, "/nowhere/host", &problem));
    CHECK_CONTAINS(problem.text, "run: install -d -m 1777 /nowhere/host");
    scratch_remove();
}

static void living_vms_have_different_ids(void)
{
    uint32_t a = 0, b = 0, c = 0;
    start();
    CHECK(directory_claim_vm_id(&first, &a, &problem));
    CHECK(directory_claim_vm_id(&second, &b, &problem));
    CHECK(a && b && a != b);
    directory_abandon(&first);
    CHECK(directory_open(&first, path, &problem));
    CHECK(directory_claim_vm_id(&first, &c, &problem));
    CHECK(c != b && c != a); /* an id comes back as late as possible */
    stop();
}

static void a_vm_file_is_complete_once_it_has_its_magic(void)
{
    struct vm_file file;
    struct vpmu_vm_header read;
    start();
    CHECK(vm_file_create(&first, "guest", 3, &file, &problem));
    CHECK_EQUAL(scratch_read("host/vm.guest", &read, sizeof read), sizeof read);
    CHECK_EQUAL(read.magic, 0);
    vm_file_complete(&file);
    scratch_read("host/vm.guest", &read, sizeof read);
    CHECK(read.magic == VPMU_VM_MAGIC);
    CHECK_EQUAL(read.version, VPMU_VERSION);
    CHECK_EQUAL(read.vcpu_count, 3);
    CHECK_EQUAL(read.pid, getpid());
    CHECK_EQUAL(read.chunk_map_offset, 4096);
    CHECK_EQUAL(read.chunk_node[VPMU_CHUNKS - 1], VPMU_NODE_UNKNOWN);
    CHECK(!strcmp(read.name, "guest"));
    unmap_vm(&file);
    stop();
}

static void an_orderly_end_closes_and_removes_the_file(void)
{
    struct vm_file file;
    start();
    CHECK(vm_file_create(&first, "guest", 1, &file, &problem));
    vm_file_complete(&file);
    vm_file_close(&first, "guest", &file);
    CHECK_EQUAL(file.header->closed, 1);
    CHECK(!scratch_has("host/vm.guest"));
    unmap_vm(&file);
    stop();
}

static void a_killed_vms_file_is_closed_and_replaced(void)
{
    struct vm_file old, new;
    start();
    CHECK(vm_file_create(&first, "guest", 1, &old, &problem));
    vm_file_complete(&old);
    old.slots[0].instructions = 77;
    directory_abandon(&first); /* as the kernel does for a killed process */
    CHECK(vm_file_create(&second, "guest", 1, &new, &problem));
    CHECK_EQUAL(old.header->closed, 1);
    CHECK_EQUAL(old.slots[0].instructions, 77); /* a reader that holds the old map sees it frozen */
    CHECK_EQUAL(new.slots[0].instructions, 0);
    CHECK(new.header->started_ns != old.header->started_ns);
    unmap_vm(&old);
    unmap_vm(&new);
    stop();
}

static void the_old_vms_end_leaves_its_successors_file(void)
{
    struct vm_file old, new;
    start();
    CHECK(vm_file_create(&first, "guest", 1, &old, &problem));
    CHECK(vm_file_create(&second, "guest", 1, &new, &problem));
    CHECK_EQUAL(old.header->closed, 0); /* it still lives */
    vm_file_close(&first, "guest", &old);
    CHECK(scratch_has("host/vm.guest"));
    unmap_vm(&old);
    unmap_vm(&new);
    stop();
}

static void vms_share_the_llc(void)
{
    uint64_t *a, *b;
    start();
    CHECK(llc_file_attach(&first, 1, &SHAPE, &a, &problem));
    CHECK(llc_file_attach(&second, 1, &SHAPE, &b, &problem));
    a[127] = 42;
    CHECK_EQUAL(b[127], 42);
    unmap_llc(a);
    unmap_llc(b);
    stop();
}

static void another_shape_is_refused_while_the_file_is_used(void)
{
    uint64_t *a, *b;
    struct vpmu_llc_header other = SHAPE;
    other.sample = 8;
    start();
    CHECK(llc_file_attach(&first, 0, &SHAPE, &a, &problem));
    CHECK(!llc_file_attach(&second, 0, &other, &b, &problem));
    CHECK_CONTAINS(problem.text, "llc.0: running VMs share it with other settings");
    unmap_llc(a);
    directory_abandon(&first);
    CHECK(llc_file_attach(&second, 0, &other, &b, &problem)); /* nobody uses it now */
    unmap_llc(b);
    stop();
}

static void a_file_of_another_version_is_refused(void)
{
    uint64_t *lines;
    struct vpmu_llc_header other = SHAPE;
    other.version = 99;
    start();
    scratch_write("host/llc.0", &other, sizeof other);
    CHECK(!llc_file_attach(&first, 0, &SHAPE, &lines, &problem));
    CHECK_CONTAINS(problem.text, "llc.0: has layout version 99, this vpmu has 1");
    stop();
}

static void a_foreign_file_is_refused_and_kept(void)
{
    uint64_t *lines;
    start();
    scratch_write_text("host/llc.0", "somebody's letters, not a cache");
    CHECK(!llc_file_attach(&first, 0, &SHAPE, &lines, &problem));
    CHECK_CONTAINS(problem.text, "not a file of vpmu");
    CHECK(scratch_has("host/llc.0"));
    stop();
}

static void a_half_made_or_shortened_file_is_made_afresh(void)
{
    uint64_t *lines;
    start();
    scratch_write_text("host/llc.0", "");
    CHECK(llc_file_attach(&first, 0, &SHAPE, &lines, &problem));
    lines[127] = 1;
    unmap_llc(lines);
    CHECK(!truncate(scratch_path("host/llc.0"), 4096));
    CHECK(!llc_file_attach(&second, 0, &SHAPE, &lines, &problem)); /* in use: joining it would end in SIGBUS */
    stop();
}

static void controllers_are_shared_and_checked(void)
{
    struct vpmu_mc *a, *b;
    start();
    CHECK(mc_file_attach(&first, 0, 5000000, 2000000, &a, &problem));
    CHECK_EQUAL(a->latency_x256, 256);
    CHECK(mc_file_attach(&second, 0, 5000000, 2000000, &b, &problem));
    a->window_lines = 3;
    CHECK_EQUAL(b->window_lines, 3);
    munmap(b, sizeof *b);
    CHECK(!mc_file_attach(&second, 0, 6000000, 2000000, &b, &problem));
    CHECK_CONTAINS(problem.text, "the same llc_kib, llc_ways, sample, bandwidth, write_bandwidth, mhz and cpus");
    CHECK(!mc_file_attach(&second, 0, 5000000, 2500000, &b, &problem));
    CHECK_CONTAINS(problem.text, "bandwidth, write_bandwidth, mhz and cpus");
    munmap(a, sizeof *a);
    stop();
}

const struct test directory_tests[] = {
    {"the directory is made for everybody", the_directory_is_made_for_everybody},
    {"a directory that cannot be used is refused", a_directory_that_cannot_be_used_is_refused},
    {"living VMs have different ids", living_vms_have_different_ids},
    {"a VM file is complete once it has its magic", a_vm_file_is_complete_once_it_has_its_magic},
    {"an orderly end closes and removes the file", an_orderly_end_closes_and_removes_the_file},
    {"a killed VM's file is closed and replaced", a_killed_vms_file_is_closed_and_replaced},
    {"the old VM's end leaves its successor's file", the_old_vms_end_leaves_its_successors_file},
    {"VMs share the LLC", vms_share_the_llc},
    {"another shape is refused while the file is used", another_shape_is_refused_while_the_file_is_used},
    {"a file of another version is refused", a_file_of_another_version_is_refused},
    {"a foreign file is refused and kept", a_foreign_file_is_refused_and_kept},
    {"a half-made file is made afresh", a_half_made_or_shortened_file_is_made_afresh},
    {"controllers are shared and checked", controllers_are_shared_and_checked},
    {NULL, NULL},
};
