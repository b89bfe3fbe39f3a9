// SPDX-License-Identifier: Apache-2.0
/*
 * The files of a modelled host: made, shared, checked and cleaned up here, and nowhere else.
 *
 * Liveness is a lock, not a pid, because a lock ends with its process even in another pid namespace: QEMU holds
 * flock(LOCK_EX) on its vm file and LOCK_SH on the shared ones, and a range lock per vm_id on `.registry`, whose own
 * flock serialises starting VMs. Every file's blocks are reserved at once: a full tmpfs must refuse a new VM, not
 * kill a running one with SIGBUS.
 */
#ifndef VPMU_DIRECTORY_H
#define VPMU_DIRECTORY_H

#include "problem.h"
#include "vpmu_layout.h"

#define DIRECTORY_MAX_HELD (3 + 2 * (int)VPMU_MAX_SOCKETS)

struct directory {
    const char *path;
    int fd;
    int registry_fd;
    int held_fds[DIRECTORY_MAX_HELD]; /* open as long as this VM lives: their locks say so */
    int held_count;
};

struct vm_file {
    struct vpmu_vm_header *header;
    struct vpmu_slot *slots;
    int fd;
};

/* Opens the directory, made with mode 01777 if absent, and locks its registry until directory_unlock. */
bool directory_open(struct directory *directory, const char *path, struct problem *problem);
void directory_unlock(struct directory *directory);

/* Gives up every lock, for a VM that will run without vpmu. */
void directory_abandon(struct directory *directory);

/* A vm_id that no living VM of the directory has. */
bool directory_claim_vm_id(struct directory *directory, uint32_t *vm_id, struct problem *problem);

/* Whether a VM has that id. */
bool directory_has_vm_id(const struct directory *directory, uint32_t vm_id);

/* Replaces whatever had that name; the magic is not set yet, see vm_file_complete. */
bool vm_file_create(struct directory *directory, const char *name, uint32_t vcpu_count, struct vm_file *file,
                    struct problem *problem);
void vm_file_complete(struct vm_file *file);

/* At the VM's end: readers that still map the file see `closed`, and the name is free again. */
void vm_file_close(struct directory *directory, const char *name, struct vm_file *file);

/* Maps the shared file, made afresh when no living VM uses it; refuses another shape or version. */
bool llc_file_attach(struct directory *directory, uint32_t socket, const struct vpmu_llc_header *shape,
                     uint64_t **lines, struct problem *problem);
bool mc_file_attach(struct directory *directory, uint32_t node, uint64_t capacity_lines_per_s,
                    uint64_t write_capacity_lines_per_s, struct vpmu_mc **controller, struct problem *problem);

/* The table of modelled CPUs, with the VMs in it that live. */
bool cpus_file_attach(struct directory *directory, uint32_t cpu_count, struct vpmu_cpus **table,
                      struct problem *problem);

/* `error.<name>`: why that VM runs without vpmu; best effort, the log has it too. */
void error_file_write(const char *directory, const char *name, const char *text);
void error_file_remove(struct directory *directory, const char *name);

#endif
