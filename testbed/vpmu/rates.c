// SPDX-License-Identifier: Apache-2.0
#include "rates.h"

#include <math.h>

static double ratio(uint64_t part, uint64_t whole)
{
    return whole ? (double)part / (double)whole : NAN;
}

struct rates rates_between(const struct vpmu_slot *before, const struct vpmu_slot *after, uint64_t span_ns)
{
    uint64_t instructions = after->instructions - before->instructions;
    uint64_t references = after->llc_references - before->llc_references;
    uint64_t local = after->llc_misses_local - before->llc_misses_local;
    uint64_t misses = local + after->llc_misses_remote - before->llc_misses_remote;
    return (struct rates){
        .mips = ratio(instructions * 1000, span_ns),
        .l2_mpki = 1000 * ratio(references, instructions),
        .llc_mpki = 1000 * ratio(misses, instructions),
        .memory_factor = ratio(misses, references),
        .shadow_memory_factor = ratio(after->shadow_llc_misses - before->shadow_llc_misses, references),
        .local_ratio = ratio(local, misses),
        .ipc = ratio(instructions, after->cycles - before->cycles),
        .paced_ratio = ratio(after->paced_ns - before->paced_ns, span_ns),
        .write_mpki = 1000 * ratio(after->write_backs - before->write_backs, instructions),
        .granted_ratio = ratio(after->granted_ns - before->granted_ns, span_ns),
        .run_delay_ratio = ratio(after->run_delay_ns - before->run_delay_ns, span_ns),
        .throttled_ratio = ratio(after->throttled_ns - before->throttled_ns, span_ns),
        .debt_ratio = ratio(after->debt_ns - before->debt_ns, span_ns),
    };
}
