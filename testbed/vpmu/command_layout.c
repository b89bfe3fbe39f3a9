// SPDX-License-Identifier: Apache-2.0
/* `vpmu layout --json`: every field of vpmu_layout.h as the compiler placed it. */
#include <stdio.h>

#include "command.h"
#include "vpmu_layout.h"

struct field {
    const char *name;
    size_t offset;
    size_t bytes;
    const char *type;
};

#define TYPE_NAME(x) _Generic((x), uint64_t: "u64", uint32_t: "u32", int32_t: "i32", default: "bytes")
#define FIELD(type, member) \
    {#member, offsetof(struct type, member), sizeof(((struct type *)0)->member), TYPE_NAME(((struct type *)0)->member)}
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const struct field VM[] = {
    FIELD(vpmu_vm_header, magic),        FIELD(vpmu_vm_header, version),
    FIELD(vpmu_vm_header, header_bytes), FIELD(vpmu_vm_header, slot_bytes),
    FIELD(vpmu_vm_header, vcpu_count),   FIELD(vpmu_vm_header, pid),
    FIELD(vpmu_vm_header, vm_id),        FIELD(vpmu_vm_header, started_ns),
    FIELD(vpmu_vm_header, sample),       FIELD(vpmu_vm_header, chunk_shift),
    FIELD(vpmu_vm_header, chunk_count),  FIELD(vpmu_vm_header, chunk_map_offset),
    FIELD(vpmu_vm_header, socket_count), FIELD(vpmu_vm_header, node_count),
    FIELD(vpmu_vm_header, node_of_socket), FIELD(vpmu_vm_header, has_shadow),
    FIELD(vpmu_vm_header, closed),       FIELD(vpmu_vm_header, phase),
    FIELD(vpmu_vm_header, mhz),          FIELD(vpmu_vm_header, cpi_x100),
    FIELD(vpmu_vm_header, name),         FIELD(vpmu_vm_header, chunk_node),
};

static const struct field SLOT[] = {
    FIELD(vpmu_slot, instructions),      FIELD(vpmu_slot, cycles),
    FIELD(vpmu_slot, l1_misses),         FIELD(vpmu_slot, llc_references),
    FIELD(vpmu_slot, llc_misses_local),  FIELD(vpmu_slot, llc_misses_remote),
    FIELD(vpmu_slot, shadow_llc_misses), FIELD(vpmu_slot, stall_cycles),
    FIELD(vpmu_slot, paced_ns),          FIELD(vpmu_slot, debt_ns),
    FIELD(vpmu_slot, updated_ns),        FIELD(vpmu_slot, tid),
    FIELD(vpmu_slot, cpu),               FIELD(vpmu_slot, socket),
    FIELD(vpmu_slot, write_backs),       FIELD(vpmu_slot, granted_ns),
    FIELD(vpmu_slot, run_delay_ns),      FIELD(vpmu_slot, throttled_ns),
    FIELD(vpmu_slot, beside_sibling_ns),
};

static const struct field LLC[] = {
    FIELD(vpmu_llc_header, magic), FIELD(vpmu_llc_header, version), FIELD(vpmu_llc_header, header_bytes),
    FIELD(vpmu_llc_header, sets),  FIELD(vpmu_llc_header, ways),    FIELD(vpmu_llc_header, sample),
};

static const struct field CPUS[] = {
    FIELD(vpmu_cpus, magic),       FIELD(vpmu_cpus, version), FIELD(vpmu_cpus, header_bytes),
    FIELD(vpmu_cpus, cpu_count),   FIELD(vpmu_cpus, ticks_per_s), FIELD(vpmu_cpus, lock_ns),
    FIELD(vpmu_cpus, advanced_ns), FIELD(vpmu_cpus, vcpus_of_vm), FIELD(vpmu_cpus, cpu),
    FIELD(vpmu_cpus, vm),          FIELD(vpmu_cpus, entry),
};

static const struct field QUOTA[] = {
    FIELD(vpmu_quota, quota_us),         FIELD(vpmu_quota, period_us),    FIELD(vpmu_quota, periods),
    FIELD(vpmu_quota, throttled_periods), FIELD(vpmu_quota, throttled_ns), FIELD(vpmu_quota, is_throttled),
};

static const struct field CPUS_VM[] = {
    FIELD(vpmu_cpus_vm, weight),
    FIELD(vpmu_cpus_vm, quota),
    FIELD(vpmu_cpus_vm, group),
};

static const struct field CPUS_ENTRY[] = {
    FIELD(vpmu_cpus_entry, tid),        FIELD(vpmu_cpus_entry, state),
    FIELD(vpmu_cpus_entry, thread_started_ticks), FIELD(vpmu_cpus_entry, updated_ns),
    FIELD(vpmu_cpus_entry, allowed),    FIELD(vpmu_cpus_entry, weight),
    FIELD(vpmu_cpus_entry, cpu),        FIELD(vpmu_cpus_entry, granted_ns),
    FIELD(vpmu_cpus_entry, delay_ns),   FIELD(vpmu_cpus_entry, vm_throttled_ns),
    FIELD(vpmu_cpus_entry, slices),     FIELD(vpmu_cpus_entry, quota),
};

static const struct field MC[] = {
    FIELD(vpmu_mc, magic),
    FIELD(vpmu_mc, version),
    FIELD(vpmu_mc, header_bytes),
    FIELD(vpmu_mc, capacity_lines_per_s),
    FIELD(vpmu_mc, window_start_ns),
    FIELD(vpmu_mc, window_lines),
    FIELD(vpmu_mc, total_lines),
    FIELD(vpmu_mc, utilisation_permille),
    FIELD(vpmu_mc, latency_x256),
    FIELD(vpmu_mc, write_capacity_lines_per_s),
    FIELD(vpmu_mc, window_written_lines),
    FIELD(vpmu_mc, total_written_lines),
    FIELD(vpmu_mc, write_utilisation_permille),
    FIELD(vpmu_mc, price_x65536),
    FIELD(vpmu_mc, write_price_x65536),
};

static void print_struct(const char *name, size_t bytes, const struct field *fields, size_t count)
{
    printf(",\"%s\":{\"bytes\":%zu,\"fields\":{", name, bytes);
    for (size_t i = 0; i < count; i++)
        printf("%s\"%s\":{\"offset\":%zu,\"bytes\":%zu,\"type\":\"%s\"}", i ? "," : "", fields[i].name,
               fields[i].offset, fields[i].bytes, fields[i].type);
    printf("}}");
}

int command_layout(void)
{
    printf("{\"version\":%u,\"magic\":{\"vm\":%llu,\"llc\":%llu,\"mc\":%llu,\"cpus\":%llu}", VPMU_VERSION,
           (unsigned long long)VPMU_VM_MAGIC, (unsigned long long)VPMU_LLC_MAGIC, (unsigned long long)VPMU_MC_MAGIC,
           (unsigned long long)VPMU_CPUS_MAGIC);
    printf(",\"max_vcpus\":%u,\"node_unknown\":%u,\"phase\":{\"boot\":%d,\"measured\":%d}", VPMU_MAX_VCPUS,
           VPMU_NODE_UNKNOWN, VPMU_PHASE_BOOT, VPMU_PHASE_MEASURED);
    print_struct("vm", sizeof(struct vpmu_vm_header), VM, COUNT(VM));
    print_struct("slot", sizeof(struct vpmu_slot), SLOT, COUNT(SLOT));
    print_struct("llc", sizeof(struct vpmu_llc_header), LLC, COUNT(LLC));
    print_struct("mc", sizeof(struct vpmu_mc), MC, COUNT(MC));
    print_struct("cpus", sizeof(struct vpmu_cpus), CPUS, COUNT(CPUS));
    print_struct("cpus_vm", sizeof(struct vpmu_cpus_vm), CPUS_VM, COUNT(CPUS_VM));
    print_struct("cpus_entry", sizeof(struct vpmu_cpus_entry), CPUS_ENTRY, COUNT(CPUS_ENTRY));
    print_struct("quota", sizeof(struct vpmu_quota), QUOTA, COUNT(QUOTA));
    printf("}\n");
    return 0;
}
