// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "snapshot.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define HEAD_BYTES offsetof(struct vpmu_vm_header, reserved1)

static int open_vm(const char *directory, const char *name, int flags)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/vm.%s", directory, name);
    return open(path, flags | O_CLOEXEC);
}

/* The VM's QEMU holds an exclusive lock for life; who gets a shared one looks at the file of a dead VM. */
static bool is_dead(int fd, const struct vpmu_vm_header *head)
{
    if (head->closed)
        return true;
    if (flock(fd, LOCK_SH | LOCK_NB))
        return false;
    flock(fd, LOCK_UN);
    return true;
}

static enum snapshot_result read_head(int fd, const char *name, struct vpmu_vm_header *head, struct problem *problem)
{
    if (pread(fd, head, HEAD_BYTES, 0) != (ssize_t)HEAD_BYTES || !head->magic)
        return SNAPSHOT_DEAD; /* half-made: its VM is not there yet, or never will be */
    if (head->magic != VPMU_VM_MAGIC)
        return problem_set(problem, "vm.%s is not a file of vpmu: remove it", name), SNAPSHOT_REFUSED;
    if (head->version != VPMU_VERSION || head->slot_bytes != sizeof(struct vpmu_slot) ||
        head->vcpu_count > VPMU_MAX_VCPUS || head->header_bytes != sizeof *head)
        return problem_set(problem, "vm.%s has layout version %u, this command reads version %u: use the vpmu "
                                    "command that was built with its plugin",
                           name, head->version, VPMU_VERSION),
               SNAPSHOT_REFUSED;
    return is_dead(fd, head) ? SNAPSHOT_DEAD : SNAPSHOT_TAKEN;
}

uint32_t snapshot_node_count(const struct vpmu_vm_header *head)
{
    return head->node_count ? head->node_count : head->socket_count;
}

static void copy_head(const struct vpmu_vm_header *head, struct vm_snapshot *snapshot)
{
    snprintf(snapshot->name, sizeof snapshot->name, "%.*s", VPMU_NAME_BYTES - 1, head->name);
    snapshot->pid = head->pid;
    snapshot->vcpu_count = head->vcpu_count;
    snapshot->sample = head->sample;
    snapshot->socket_count = head->socket_count;
    snapshot->node_count = snapshot_node_count(head);
    snapshot->has_shadow = head->has_shadow;
    snapshot->phase = head->phase;
    snapshot->mhz = head->mhz;
    snapshot->started_ns = head->started_ns;
}

static enum snapshot_result read_slots(int fd, const char *name, struct vm_snapshot *snapshot,
                                       struct problem *problem)
{
    struct timespec now;
    size_t bytes = snapshot->vcpu_count * sizeof(struct vpmu_slot);
    if (pread(fd, snapshot->slots, bytes, sizeof(struct vpmu_vm_header)) != (ssize_t)bytes)
        return problem_set(problem, "vm.%s is cut short: restart its VM", name), SNAPSHOT_REFUSED;
    clock_gettime(CLOCK_MONOTONIC, &now);
    snapshot->taken_ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
    return SNAPSHOT_TAKEN;
}

enum snapshot_result snapshot_take(const char *directory, const char *name, struct vm_snapshot *snapshot,
                                   struct problem *problem)
{
    struct vpmu_vm_header head;
    int fd = open_vm(directory, name, O_RDONLY);
    if (fd < 0 && errno == ENOENT)
        return SNAPSHOT_DEAD;
    if (fd < 0)
        return problem_set(problem, "vm.%s: %s", name, strerror(errno)), SNAPSHOT_REFUSED;
    enum snapshot_result result = read_head(fd, name, &head, problem);
    if (result == SNAPSHOT_TAKEN) {
        copy_head(&head, snapshot);
        result = read_slots(fd, name, snapshot, problem);
    }
    close(fd);
    return result;
}

struct vpmu_vm_header *snapshot_map_controls(const char *directory, const char *name, struct problem *problem)
{
    struct vpmu_vm_header head;
    struct vpmu_vm_header *mapped = MAP_FAILED;
    int fd = open_vm(directory, name, O_RDWR);
    if (fd < 0)
        return problem_set(problem, "no VM %s in %s (%s): see vpmu --dir %s list", name, directory, strerror(errno),
                           directory),
               NULL;
    enum snapshot_result result = read_head(fd, name, &head, problem);
    if (result == SNAPSHOT_TAKEN)
        mapped = mmap(NULL, sizeof *mapped, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (result == SNAPSHOT_DEAD)
        problem_set(problem, "VM %s is not running: see vpmu --dir %s list", name, directory);
    else if (result == SNAPSHOT_TAKEN && mapped == MAP_FAILED)
        problem_set(problem, "vm.%s: %s", name, strerror(errno));
    close(fd);
    return mapped == MAP_FAILED ? NULL : mapped;
}

int snapshot_names(const char *directory, const char *prefix, char ***names, struct problem *problem)
{
    struct dirent **entries;
    size_t skip = strlen(prefix);
    int count = 0, found = scandir(directory, &entries, NULL, alphasort);
    if (found < 0)
        return problem_set(problem, "%s: %s: name the directory of the plugin's dir= option with --dir", directory,
                           strerror(errno)),
               -1;
    *names = calloc((size_t)found + 1, sizeof **names);
    for (int i = 0; i < found; i++) {
        if (*names && !strncmp(entries[i]->d_name, prefix, skip))
            (*names)[count++] = strdup(entries[i]->d_name + skip);
        free(entries[i]);
    }
    free(entries);
    return count;
}
