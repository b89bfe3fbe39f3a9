// SPDX-License-Identifier: Apache-2.0
/* The mapped files of directory.h: vm.<name>, llc.<socket>, mc.<node>. All run under the registry's lock. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "controller.h"
#include "cpus.h"
#include "directory.h"

/* How every mapped file begins. */
struct preamble {
    uint64_t magic;
    uint32_t version;
    uint32_t header_bytes;
};

/* A file shared between VMs: the first `identity_bytes` of all its users must be equal to `header`. */
struct shared_file {
    char name[32];
    const void *header;
    size_t identity_bytes;
    size_t file_bytes;
};

_Static_assert(sizeof(struct vpmu_llc_header) == sizeof(struct vpmu_mc), "create_shared copies either");
_Static_assert(offsetof(struct vpmu_cpus, cpu) == sizeof(struct vpmu_mc), "and the head of this one");

static void *map(int fd, size_t bytes)
{
    return mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
}

static bool refuse_file(const struct directory *directory, const char *name, const char *what,
                        struct problem *problem)
{
    return problem_set(problem, "dir=%s: %.260s: %s: %s", directory->path, name, what, strerror(errno));
}

/* A new file with all its blocks reserved, mapped; the caller locks it before it sets the magic. */
static void *create_mapped(const struct directory *directory, const char *name, size_t bytes, int *fd,
                           struct problem *problem)
{
    if (unlinkat(directory->fd, name, 0) && errno != ENOENT)
        return refuse_file(directory, name, "the old file cannot be removed", problem), NULL;
    *fd = openat(directory->fd, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (*fd < 0 || fchmod(*fd, 0666))
        return refuse_file(directory, name, "cannot be made", problem), NULL;
    errno = posix_fallocate(*fd, 0, (off_t)bytes);
    void *memory = errno ? MAP_FAILED : map(*fd, bytes);
    if (memory != MAP_FAILED)
        return memory;
    refuse_file(directory, name, "no room", problem);
    unlinkat(directory->fd, name, 0);
    close(*fd);
    *fd = -1;
    return NULL;
}

/* Locks a file for this VM's life. On failure the fd stays the caller's. */
static bool hold(struct directory *directory, int fd, int kind)
{
    if (directory->held_count == DIRECTORY_MAX_HELD || flock(fd, kind | LOCK_NB))
        return false;
    directory->held_fds[directory->held_count++] = fd;
    return true;
}

/* ---- vm.<name> ---- */

static void vm_name(char path[NAME_MAX + 1], const char *name)
{
    snprintf(path, NAME_MAX + 1, "vm.%s", name);
}

/* Whoever still maps the file of a killed VM of that name shall see that it is over. */
static void close_predecessor(const struct directory *directory, const char *path)
{
    struct preamble found;
    const uint32_t closed = 1;
    int fd = openat(directory->fd, path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return;
    bool is_ours = pread(fd, &found, sizeof found, 0) == sizeof found && found.magic == VPMU_VM_MAGIC &&
                   found.version == VPMU_VERSION;
    if (flock(fd, LOCK_EX | LOCK_NB))
        fprintf(stderr, "vpmu: %s/%s: a living VM has this name and vanishes from the directory\n", directory->path,
                path);
    else if (is_ours && pwrite(fd, &closed, sizeof closed, offsetof(struct vpmu_vm_header, closed)) < 0)
        fprintf(stderr, "vpmu: %s/%s: %s\n", directory->path, path, strerror(errno));
    close(fd);
}

bool vm_file_create(struct directory *directory, const char *name, uint32_t vcpu_count, struct vm_file *file,
                    struct problem *problem)
{
    char path[NAME_MAX + 1];
    struct timespec now;
    size_t bytes = sizeof(struct vpmu_vm_header) + vcpu_count * sizeof(struct vpmu_slot);
    vm_name(path, name);
    close_predecessor(directory, path);
    file->header = create_mapped(directory, path, bytes, &file->fd, problem);
    if (!file->header)
        return false;
    if (!hold(directory, file->fd, LOCK_EX))
        return refuse_file(directory, path, "cannot be locked", problem);
    clock_gettime(CLOCK_REALTIME, &now);
    file->slots = (struct vpmu_slot *)(file->header + 1);
    file->header->version = VPMU_VERSION;
    file->header->header_bytes = sizeof(struct vpmu_vm_header);
    file->header->slot_bytes = sizeof(struct vpmu_slot);
    file->header->vcpu_count = vcpu_count;
    file->header->pid = getpid();
    file->header->started_ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
    file->header->chunk_shift = VPMU_CHUNK_SHIFT;
    file->header->chunk_count = VPMU_CHUNKS;
    file->header->chunk_map_offset = offsetof(struct vpmu_vm_header, chunk_node);
    snprintf(file->header->name, sizeof file->header->name, "%s", name);
    memset(file->header->chunk_node, VPMU_NODE_UNKNOWN, sizeof file->header->chunk_node);
    return true;
}

void vm_file_complete(struct vm_file *file)
{
    __atomic_store_n(&file->header->magic, VPMU_VM_MAGIC, __ATOMIC_RELEASE);
}

void vm_file_close(struct directory *directory, const char *name, struct vm_file *file)
{
    char path[NAME_MAX + 1];
    struct stat own, named;
    vm_name(path, name);
    __atomic_store_n(&file->header->closed, 1, __ATOMIC_RELEASE);
    /* A successor may have the name by now. */
    if (!fstat(file->fd, &own) && !fstatat(directory->fd, path, &named, AT_SYMLINK_NOFOLLOW) &&
        own.st_ino == named.st_ino && own.st_dev == named.st_dev)
        unlinkat(directory->fd, path, 0);
}

/* ---- files that VMs share ---- */

static void *create_shared(struct directory *directory, const struct shared_file *wanted,
                           struct problem *problem)
{
    int fd = -1;
    char *memory = create_mapped(directory, wanted->name, wanted->file_bytes, &fd, problem);
    if (!memory)
        return NULL;
    if (!hold(directory, fd, LOCK_SH))
        return refuse_file(directory, wanted->name, "cannot be locked", problem), NULL;
    memcpy(memory + sizeof(uint64_t), (const char *)wanted->header + sizeof(uint64_t),
           sizeof(struct vpmu_mc) - sizeof(uint64_t));
    __atomic_store_n((uint64_t *)memory, *(const uint64_t *)wanted->header, __ATOMIC_RELEASE);
    return memory;
}

/* Refuses what is not ours or of another version; the file is open and may be half-made (all zero). */
static bool check_preamble(const struct directory *directory, const struct shared_file *wanted,
                           const struct preamble *found, struct problem *problem)
{
    const struct preamble *own = wanted->header;
    if (found->magic && found->magic != own->magic)
        return problem_set(problem, "dir=%s: %s: not a file of vpmu; remove it or use another dir=", directory->path,
                           wanted->name);
    if (found->magic && found->version != own->version)
        return problem_set(problem,
                           "dir=%s: %s: has layout version %u, this vpmu has %u; stop the VMs that use it and remove "
                           "it, or use another dir=",
                           directory->path, wanted->name, found->version, own->version);
    return true;
}

static void *map_alike(const struct shared_file *wanted, int fd)
{
    struct stat status;
    if (fstat(fd, &status) || (size_t)status.st_size != wanted->file_bytes)
        return NULL;
    void *memory = map(fd, wanted->file_bytes);
    if (memory == MAP_FAILED)
        return NULL;
    if (!memcmp(memory, wanted->header, wanted->identity_bytes))
        return memory;
    munmap(memory, wanted->file_bytes);
    return NULL;
}

static bool refuse_settings(const struct directory *directory, const char *name, struct problem *problem)
{
    return problem_set(problem,
                       "dir=%s: %s: running VMs share it with other settings; give all VMs of a directory the same "
                       "llc_kib, llc_ways, sample, bandwidth, write_bandwidth, mhz and cpus, or use another dir=",
                       directory->path, name);
}

static void *join_shared(struct directory *directory, const struct shared_file *wanted, int fd,
                         struct problem *problem)
{
    void *memory = map_alike(wanted, fd);
    if (!memory)
        refuse_settings(directory, wanted->name, problem);
    else if (hold(directory, fd, LOCK_SH))
        return memory;
    else
        refuse_file(directory, wanted->name, "cannot be locked", problem);
    close(fd);
    return NULL;
}

static void *attach_shared(struct directory *directory, const struct shared_file *wanted,
                           struct problem *problem)
{
    struct preamble found = {0, 0, 0};
    int fd = openat(directory->fd, wanted->name, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0 && errno == ENOENT)
        return create_shared(directory, wanted, problem);
    if (fd < 0 || pread(fd, &found, sizeof found, 0) < 0)
        return refuse_file(directory, wanted->name, "cannot be opened", problem), NULL;
    bool is_usable = check_preamble(directory, wanted, &found, problem);
    if (is_usable && flock(fd, LOCK_EX | LOCK_NB))
        return join_shared(directory, wanted, fd, problem);
    close(fd); /* nobody uses it: no living VM's tags are lost by starting afresh */
    return is_usable ? create_shared(directory, wanted, problem) : NULL;
}

bool llc_file_attach(struct directory *directory, uint32_t socket, const struct vpmu_llc_header *shape,
                     uint64_t **lines, struct problem *problem)
{
    struct shared_file wanted = {
        .header = shape,
        .identity_bytes = offsetof(struct vpmu_llc_header, reserved),
        .file_bytes = sizeof *shape + (size_t)shape->sets * shape->ways * sizeof(uint64_t),
    };
    snprintf(wanted.name, sizeof wanted.name, "llc.%u", socket);
    struct vpmu_llc_header *file = attach_shared(directory, &wanted, problem);
    *lines = file ? file->lines : NULL;
    return file != NULL;
}

bool mc_file_attach(struct directory *directory, uint32_t node, uint64_t capacity_lines_per_s,
                    uint64_t write_capacity_lines_per_s, struct vpmu_mc **controller, struct problem *problem)
{
    const struct vpmu_mc fresh = {
        .magic = VPMU_MC_MAGIC,
        .version = VPMU_VERSION,
        .header_bytes = sizeof(struct vpmu_mc),
        .capacity_lines_per_s = capacity_lines_per_s,
        .latency_x256 = CONTROLLER_LATENCY_ONE,
        .write_capacity_lines_per_s = write_capacity_lines_per_s,
    };
    struct shared_file wanted = {
        .header = &fresh,
        .identity_bytes = offsetof(struct vpmu_mc, window_start_ns),
        .file_bytes = sizeof fresh,
    };
    snprintf(wanted.name, sizeof wanted.name, "mc.%u", node);
    *controller = attach_shared(directory, &wanted, problem);
    if (*controller && (*controller)->write_capacity_lines_per_s != write_capacity_lines_per_s)
        return refuse_settings(directory, wanted.name, problem);
    return *controller != NULL;
}

bool cpus_file_attach(struct directory *directory, uint32_t cpu_count, struct vpmu_cpus **table,
                      struct problem *problem)
{
    static struct vpmu_cpus fresh; /* all but its head stays zero */
    fresh.magic = VPMU_CPUS_MAGIC;
    fresh.version = VPMU_VERSION;
    fresh.header_bytes = offsetof(struct vpmu_cpus, cpu);
    fresh.cpu_count = cpu_count;
    fresh.ticks_per_s = (uint32_t)sysconf(_SC_CLK_TCK);
    struct shared_file wanted = {
        .name = "cpus",
        .header = &fresh,
        .identity_bytes = offsetof(struct vpmu_cpus, lock_ns),
        .file_bytes = sizeof fresh,
    };
    *table = attach_shared(directory, &wanted, problem);
    for (uint32_t vm_id = 1; *table && vm_id <= VPMU_MAX_VM_ID; vm_id++)
        if ((*table)->vcpus_of_vm[vm_id] && !directory_has_vm_id(directory, vm_id))
            cpus_leave(*table, vm_id);
    return *table != NULL;
}
