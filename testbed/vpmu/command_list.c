// SPDX-License-Identifier: Apache-2.0
/* `vpmu list`: the living VMs of a directory, and those that run without vpmu with the reason. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "json.h"
#include "snapshot.h"

static void print_vm(const struct vm_snapshot *vm, bool is_json, bool is_first)
{
    const char *phase = vm->phase == VPMU_PHASE_BOOT ? "boot" : "measured";
    if (!is_json) {
        printf("%-40s %8d %5u %6u %5u  %s\n", vm->name, vm->pid, vm->vcpu_count, vm->sample, vm->mhz, phase);
        return;
    }
    printf("%s{\"name\":", is_first ? "" : ",");
    json_string(vm->name);
    printf(",\"pid\":%d,\"vcpus\":%u,\"sample\":%u,\"sockets\":%u,\"nodes\":%u,\"mhz\":%u,", vm->pid, vm->vcpu_count,
           vm->sample, vm->socket_count, vm->node_count, vm->mhz);
    printf("\"phase\":\"%s\",\"started_ns\":%llu}", phase, (unsigned long long)vm->started_ns);
}

static void print_refusal(const char *name, const char *reason, bool is_json, bool is_first)
{
    if (!is_json) {
        printf("%-40s without vpmu: %s\n", name, reason);
        return;
    }
    printf("%s{\"name\":", is_first ? "" : ",");
    json_string(name);
    printf(",\"reason\":");
    json_string(reason);
    printf("}");
}

static void read_reason(const char *directory, const char *name, char *reason, int bytes)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/error.%s", directory, name);
    FILE *file = fopen(path, "r");
    if (!file || !fgets(reason, bytes, file))
        snprintf(reason, (size_t)bytes, "%s", strerror(errno));
    reason[strcspn(reason, "\n")] = 0;
    if (file)
        fclose(file);
}

/* Prints the living VMs and returns how many files were refused; those are told on stderr. */
static int list_vms(const struct command_options *options, char **names, int count)
{
    static struct vm_snapshot vm;
    struct problem problem;
    int printed = 0, refused = 0;
    for (int i = 0; i < count; i++) {
        enum snapshot_result result = snapshot_take(options->directory, names[i], &vm, &problem);
        if (result == SNAPSHOT_TAKEN)
            print_vm(&vm, options->is_json, printed++ == 0);
        if (result == SNAPSHOT_REFUSED && ++refused)
            fprintf(stderr, "vpmu: %s\n", problem.text);
        free(names[i]);
    }
    return refused;
}

static void list_refusals(const struct command_options *options, char **names, int count)
{
    char reason[sizeof(((struct problem *)NULL)->text)];
    for (int i = 0; i < count; i++) {
        read_reason(options->directory, names[i], reason, sizeof reason);
        print_refusal(names[i], reason, options->is_json, i == 0);
        free(names[i]);
    }
}

int command_list(const struct command_options *options)
{
    char **vms, **errors;
    struct problem problem;
    int vm_count = snapshot_names(options->directory, "vm.", &vms, &problem);
    if (vm_count < 0)
        return fprintf(stderr, "vpmu: %s\n", problem.text), 1;
    int error_count = snapshot_names(options->directory, "error.", &errors, &problem);
    if (options->is_json)
        printf("{\"vms\":[");
    else
        printf("%-40s %8s %5s %6s %5s  %s\n", "VM", "PID", "VCPUS", "SAMPLE", "MHZ", "PHASE");
    int refused = list_vms(options, vms, vm_count);
    if (options->is_json)
        printf("],\"refused\":[");
    list_refusals(options, errors, error_count);
    if (options->is_json)
        printf("]}\n");
    free(vms);
    if (error_count >= 0)
        free(errors);
    return refused ? 1 : 0;
}
