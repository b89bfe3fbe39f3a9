// SPDX-License-Identifier: Apache-2.0
/* `vpmu watch`: what each vCPU did in every interval, as a table of at most 100 columns or as JSON lines. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "command.h"
#include "json.h"
#include "rates.h"
#include "snapshot.h"

#define MAX_WATCHED 256

/* All VMs at one moment. */
struct picture {
    int count;
    struct vm_snapshot *vms[MAX_WATCHED];
};

static void add(struct picture *picture, const char *directory, const char *name)
{
    struct problem problem;
    struct vm_snapshot *vm = picture->count < MAX_WATCHED ? malloc(sizeof *vm) : NULL;
    if (!vm)
        return;
    enum snapshot_result result = snapshot_take(directory, name, vm, &problem);
    if (result == SNAPSHOT_TAKEN) {
        picture->vms[picture->count++] = vm;
        return;
    }
    if (result == SNAPSHOT_REFUSED)
        fprintf(stderr, "vpmu: %s\n", problem.text);
    free(vm);
}

/* The named VMs, or without names whoever lives now: VMs come and go while we watch. */
static bool take(struct picture *picture, const struct command_options *options, char **names, int name_count)
{
    char **all = NULL;
    struct problem problem;
    picture->count = 0;
    for (int i = 0; i < name_count; i++)
        add(picture, options->directory, names[i]);
    if (name_count)
        return true;
    int count = snapshot_names(options->directory, "vm.", &all, &problem);
    for (int i = 0; i < count; i++) {
        add(picture, options->directory, all[i]);
        free(all[i]);
    }
    free(all);
    if (count < 0)
        fprintf(stderr, "vpmu: %s\n", problem.text);
    return count >= 0;
}

static void forget(struct picture *picture)
{
    while (picture->count > 0)
        free(picture->vms[--picture->count]);
}

/* The same life of the same name. */
static const struct vm_snapshot *find(const struct picture *picture, const struct vm_snapshot *vm)
{
    for (int i = 0; i < picture->count; i++)
        if (picture->vms[i]->started_ns == vm->started_ns && !strcmp(picture->vms[i]->name, vm->name))
            return picture->vms[i];
    return NULL;
}

static void print_cell(int width, int decimals, double value)
{
    if (isfinite(value))
        printf(" %*.*f", width, decimals, value);
    else
        printf(" %*s", width, "-");
}

static void print_row(const struct vm_snapshot *vm, uint32_t index, const struct rates *rates)
{
    printf("%-18.18s %4u %3d %4d", vm->name, index, vm->slots[index].cpu, vm->slots[index].socket);
    print_cell(7, 1, rates->mips);
    print_cell(7, 2, rates->l2_mpki);
    print_cell(8, 2, rates->llc_mpki);
    print_cell(5, 2, rates->memory_factor);
    print_cell(6, 2, vm->has_shadow ? rates->shadow_memory_factor : NAN);
    print_cell(6, 0, 100 * rates->local_ratio);
    print_cell(5, 2, rates->ipc);
    print_cell(5, 0, 100 * rates->run_delay_ratio);
    print_cell(5, 0, 100 * rates->throttled_ratio);
    print_cell(5, 1, 100 * rates->debt_ratio);
    printf("\n");
}

static void print_json(const struct vm_snapshot *vm, uint32_t index, const struct rates *rates)
{
    const struct {
        const char *key;
        double value;
    } numbers[] = {
        {"mips", rates->mips},
        {"l2_mpki", rates->l2_mpki},
        {"llc_mpki", rates->llc_mpki},
        {"memory_factor", rates->memory_factor},
        {"shadow_memory_factor", vm->has_shadow ? rates->shadow_memory_factor : NAN},
        {"local_ratio", rates->local_ratio},
        {"ipc", rates->ipc},
        {"write_mpki", rates->write_mpki},
        {"paced_ratio", rates->paced_ratio},
        {"granted_ratio", rates->granted_ratio},
        {"run_delay_ratio", rates->run_delay_ratio},
        {"throttled_ratio", rates->throttled_ratio},
        {"debt_ratio", rates->debt_ratio},
    };
    printf("{\"monotonic_ns\":%llu,\"vm\":", (unsigned long long)vm->taken_ns);
    json_string(vm->name);
    printf(",\"vcpu\":%u,\"tid\":%d,\"cpu\":%d,\"socket\":%d", index, vm->slots[index].tid, vm->slots[index].cpu,
           vm->slots[index].socket);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        printf(",");
        json_number(numbers[i].key, numbers[i].value, 4);
    }
    printf("}\n");
}

static void print_interval(const struct picture *before, const struct picture *after, bool is_json)
{
    if (!is_json)
        printf("%-18s %4s %3s %4s %7s %7s %8s %5s %6s %6s %5s %5s %5s %5s\n", "VM", "VCPU", "CPU", "SOCK", "MIPS", "L2MPKI",
               "LLCMPKI", "MF", "SHADOW", "LOCAL%", "IPC", "WAIT%", "THR%", "DEBT%");
    for (int i = 0; i < after->count; i++) {
        const struct vm_snapshot *vm = after->vms[i], *earlier = find(before, vm);
        for (uint32_t v = 0; earlier && v < vm->vcpu_count; v++) {
            struct rates rates =
                rates_between(&earlier->slots[v], &vm->slots[v], vm->taken_ns - earlier->taken_ns);
            (is_json ? print_json : print_row)(vm, v, &rates);
        }
    }
    fflush(stdout);
}

static struct timespec later(struct timespec time, long ms)
{
    time.tv_sec += ms / 1000;
    time.tv_nsec += ms % 1000 * 1000000;
    if (time.tv_nsec >= 1000000000) {
        time.tv_sec++;
        time.tv_nsec -= 1000000000;
    }
    return time;
}

int command_watch(const struct command_options *options, char **names, int name_count)
{
    static struct picture pictures[2];
    struct timespec next;
    bool is_readable = take(&pictures[0], options, names, name_count);
    if (is_readable && name_count > pictures[0].count) {
        fprintf(stderr, "vpmu: not all of the VMs named run in %s: see vpmu --dir %s list\n", options->directory,
                options->directory);
        return 1;
    }
    clock_gettime(CLOCK_MONOTONIC, &next);
    for (long i = 0; is_readable && (!options->count || i < options->count); i++) {
        struct picture *before = &pictures[i & 1], *after = &pictures[~i & 1];
        next = later(next, options->interval_ms);
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL);
        is_readable = take(after, options, names, name_count);
        print_interval(before, after, options->is_json);
        forget(before);
    }
    return is_readable ? 0 : 1;
}
