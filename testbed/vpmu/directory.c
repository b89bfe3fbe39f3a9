// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "directory.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define REGISTRY ".registry"
#define LOCK_ATTEMPTS 200
#define LOCK_PAUSE_NS 10000000

static bool make_directory(const char *path, struct problem *problem)
{
    if (!mkdir(path, 01777))
        return !chmod(path, 01777) || problem_set(problem, "dir=%s: chmod 1777: %s", path, strerror(errno));
    if (errno == EEXIST)
        return true;
    return problem_set(problem, "dir=%s: cannot be made: %s; run: install -d -m 1777 %s", path, strerror(errno), path);
}

/* First without O_CREAT: in sticky directories fs.protected_regular forbids it for existing files of others. */
static int open_shared(int directory_fd, const char *name)
{
    int fd = openat(directory_fd, name, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (fd >= 0 || errno != ENOENT)
        return fd;
    fd = openat(directory_fd, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd >= 0)
        fchmod(fd, 0666);
    if (fd < 0 && errno == EEXIST)
        fd = openat(directory_fd, name, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    return fd;
}

/* A VM that starts holds the registry for milliseconds, so waiting long means that one is stopped in the middle. */
static bool lock_registry(struct directory *directory, struct problem *problem)
{
    const struct timespec pause = {0, LOCK_PAUSE_NS};
    for (int attempt = 0; attempt < LOCK_ATTEMPTS; attempt++) {
        if (!flock(directory->registry_fd, LOCK_EX | LOCK_NB))
            return true;
        nanosleep(&pause, NULL);
    }
    return problem_set(problem, "dir=%s: another starting VM holds %s; end it or use another dir=", directory->path,
                       REGISTRY);
}

bool directory_open(struct directory *directory, const char *path, struct problem *problem)
{
    *directory = (struct directory){.path = path, .fd = -1, .registry_fd = -1};
    if (!make_directory(path, problem))
        return false;
    directory->fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (directory->fd < 0)
        return problem_set(problem, "dir=%s: cannot be opened: %s; name a directory", path, strerror(errno));
    directory->registry_fd = open_shared(directory->fd, REGISTRY);
    if (directory->registry_fd < 0)
        return problem_set(problem, "dir=%s: not writable for uid %u: %s; run: chmod 1777 %s", path, getuid(),
                           strerror(errno), path);
    directory->held_fds[directory->held_count++] = directory->registry_fd;
    return lock_registry(directory, problem);
}

void directory_abandon(struct directory *directory)
{
    while (directory->held_count > 0) {
        int fd = directory->held_fds[--directory->held_count];
        flock(fd, LOCK_UN); /* closing is not enough: a mapping keeps the open file, and with it the lock */
        close(fd);
    }
    if (directory->fd >= 0)
        close(directory->fd);
    directory->fd = -1;
    directory->registry_fd = -1;
}

void directory_unlock(struct directory *directory)
{
    if (directory->registry_fd >= 0)
        flock(directory->registry_fd, LOCK_UN);
}

static bool lock_vm_id(int registry_fd, uint32_t vm_id)
{
    struct flock range = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = vm_id, .l_len = 1};
    return !fcntl(registry_fd, F_OFD_SETLK, &range);
}

bool directory_has_vm_id(const struct directory *directory, uint32_t vm_id)
{
    struct flock range = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = vm_id, .l_len = 1};
    return fcntl(directory->registry_fd, F_OFD_GETLK, &range) || range.l_type != F_UNLCK;
}

bool directory_claim_vm_id(struct directory *directory, uint32_t *vm_id, struct problem *problem)
{
    uint8_t last = 0; /* ids go round, so that a dead VM's tags are long gone when its id comes back */
    if (pread(directory->registry_fd, &last, 1, 0) < 0)
        return problem_set(problem, "dir=%s: %s: %s", directory->path, REGISTRY, strerror(errno));
    for (uint32_t step = 0; step < VPMU_MAX_VM_ID; step++) {
        uint8_t candidate = (uint8_t)((last + step) % VPMU_MAX_VM_ID + 1);
        if (!lock_vm_id(directory->registry_fd, candidate))
            continue;
        *vm_id = candidate;
        return pwrite(directory->registry_fd, &candidate, 1, 0) == 1 ||
               problem_set(problem, "dir=%s: %s: %s", directory->path, REGISTRY, strerror(errno));
    }
    return problem_set(problem, "dir=%s: already has %u VMs; use another dir=", directory->path, VPMU_MAX_VM_ID);
}

static void error_name(char path[NAME_MAX + 1], const char *name)
{
    snprintf(path, NAME_MAX + 1, "error.%s", name);
}

void error_file_write(const char *directory, const char *name, const char *text)
{
    char path[NAME_MAX + 1];
    struct problem unused;
    error_name(path, name);
    if (!make_directory(directory, &unused))
        return;
    int directory_fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int fd = directory_fd < 0 ? -1 : open_shared(directory_fd, path);
    if (fd >= 0 && (ftruncate(fd, 0) || dprintf(fd, "%s\n", text) < 0))
        fprintf(stderr, "vpmu: %s/%s: %s\n", directory, path, strerror(errno));
    if (fd >= 0)
        close(fd);
    if (directory_fd >= 0)
        close(directory_fd);
}

void error_file_remove(struct directory *directory, const char *name)
{
    char path[NAME_MAX + 1];
    error_name(path, name);
    unlinkat(directory->fd, path, 0);
}
