// SPDX-License-Identifier: Apache-2.0
#include "config.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct number_key {
    const char *name;
    size_t offset;
    uint32_t standard;
    uint32_t min;
    uint32_t max;
    bool is_power_of_two;
    const char *help;
};

#define NUMBER(key, field, ...) {key, offsetof(struct config, field), __VA_ARGS__}

static const struct number_key NUMBERS[] = {
    NUMBER("l1_kib", model.l1_kib, 16, 4, 1024, true, "L1 data cache of a vCPU (direct-mapped filter)"),
    NUMBER("l2_kib", model.l2_kib, 32, 4, 65536, true, "private L2 of a vCPU"),
    NUMBER("l2_ways", model.l2_ways, 8, 1, 64, false, "its associativity"),
    NUMBER("llc_kib", model.llc_kib, 512, 4, 1048576, false, "last-level cache of a socket, shared by its VMs"),
    NUMBER("llc_ways", model.llc_ways, 16, 1, 64, false, "its associativity"),
    NUMBER("sample", model.sample, 8, 1, 64, true, "model one of so many cache sets"),
    NUMBER("latency_l2", model.latency_l2, 12, 0, 10000, false, "cycles of an L2 hit"),
    NUMBER("latency_llc", model.latency_llc, 40, 0, 10000, false, "cycles of an LLC hit"),
    NUMBER("latency_local", model.latency_local, 200, 1, 100000, false, "cycles of a miss served by the own node"),
    NUMBER("latency_remote", model.latency_remote, 280, 1, 100000, false, "cycles of a miss served by another node"),
    NUMBER("overlap", model.overlap, 8, 1, 64, false, "misses on consecutive lines in flight at once"),
    NUMBER("shadow", model.shadow, 1, 0, 1, false, "model the LLC that the VM would have alone"),
    NUMBER("bandwidth", bandwidth, 80, 0, 100000, false, "lines per 1000 cycles of a memory controller, 0 = unlimited"),
    NUMBER("write_bandwidth", write_bandwidth, 40, 0, 100000, false,
           "of these, lines written back, 0 = no limit of their own"),
    NUMBER("mhz", mhz, 60, 0, 10000, false, "modelled clock that guests are paced to, 0 = unpaced"),
    NUMBER("busy", busy, 0, 0, 1, false, "1: stalls use CPU time, so that a CPU quota takes modelled time"),
    NUMBER("cpus", cpus, 0, 0, VPMU_MAX_MODELLED_CPUS, false, "modelled CPUs that the VMs share, 0 = not modelled"),
    NUMBER("sibling_percent", sibling_percent, 65, 50, 100, false,
           "of what a core does for one thread alone, that each of two busy siblings gets"),
    NUMBER("cpi_x100", cpi_x100, 60, 1, 100000, false, "cycles per 100 instructions without stalls"),
    NUMBER("pace_after_s", pace_after_s, 30, 0, 86400, false, "the boot is over after so long at the latest"),
    NUMBER("pace_after_user_minstr", pace_after_user_minstr, 10, 0, 1000000, false,
           "the boot is over after so many million user-space instructions, 0 = only pace_after_s decides"),
};

struct text_key {
    const char *name;
    size_t offset;
    const char *standard;
    const char *help;
};

static const struct text_key TEXTS[] = {
    {"dir", offsetof(struct config, dir), VPMU_DEFAULT_DIR, "shared memory of this modelled host"},
    {"name", offsetof(struct config, name), "", "of the VM, default: QEMU's -name guest="},
    {"cpumap", offsetof(struct config, cpumap), "auto", "cpu:socket pairs such as 0:0;1:1, or auto: from sysfs"},
    {"nodemap", offsetof(struct config, nodemap), "one-to-one", "socket:node pairs such as 0:0;1:0, or one-to-one"},
    {"siblings", offsetof(struct config, siblings), "none", "CPUs of one core, pairs such as 0:8;1:9, none, or auto: from sysfs"},
};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static uint32_t *number_of(struct config *config, const struct number_key *key)
{
    return (uint32_t *)((char *)config + key->offset);
}

static char *text_of(struct config *config, const struct text_key *key)
{
    return (char *)config + key->offset;
}

void config_set_defaults(struct config *config)
{
    memset(config, 0, sizeof *config);
    for (size_t i = 0; i < COUNT(NUMBERS); i++)
        *number_of(config, &NUMBERS[i]) = NUMBERS[i].standard;
    for (size_t i = 0; i < COUNT(TEXTS); i++)
        strcpy(text_of(config, &TEXTS[i]), TEXTS[i].standard);
}

static bool refuse_number(const struct number_key *key, const char *value, struct problem *problem)
{
    return problem_set(problem, "%s=%s: must be a %s from %u to %u (%s)", key->name, value,
                       key->is_power_of_two ? "power of two" : "whole number", key->min, key->max, key->help);
}

static bool set_number(struct config *config, const struct number_key *key, const char *value,
                       struct problem *problem)
{
    char *end;
    errno = 0;
    unsigned long long number = strtoull(value, &end, 10);
    if (!isdigit((unsigned char)*value) || *end || errno || number < key->min || number > key->max)
        return refuse_number(key, value, problem);
    if (key->is_power_of_two && (number & (number - 1)))
        return refuse_number(key, value, problem);
    *number_of(config, key) = (uint32_t)number;
    return true;
}

static bool set_text(struct config *config, const struct text_key *key, const char *value, struct problem *problem)
{
    if (!*value || strlen(value) >= CONFIG_TEXT_BYTES)
        return problem_set(problem, "%s=%.60s: must have 1 to %d characters (%s)", key->name, value,
                           CONFIG_TEXT_BYTES - 1, key->help);
    strcpy(text_of(config, key), value);
    return true;
}

static bool refuse_key(const char *key, struct problem *problem)
{
    char known[384] = "";
    for (size_t i = 0; i < COUNT(TEXTS); i++)
        strncat(strcat(known, TEXTS[i].name), ", ", sizeof known - strlen(known) - 1);
    for (size_t i = 0; i < COUNT(NUMBERS); i++)
        strncat(strcat(known, NUMBERS[i].name), ", ", sizeof known - strlen(known) - 1);
    return problem_set(problem, "%.60s: no such key; known are %sconf", key, known);
}

static bool set_key(struct config *config, const char *key, const char *value, struct problem *problem)
{
    for (size_t i = 0; i < COUNT(NUMBERS); i++)
        if (!strcmp(key, NUMBERS[i].name))
            return set_number(config, &NUMBERS[i], value, problem);
    for (size_t i = 0; i < COUNT(TEXTS); i++)
        if (!strcmp(key, TEXTS[i].name))
            return set_text(config, &TEXTS[i], value, problem);
    return refuse_key(key, problem);
}

static char *strip(char *text)
{
    while (isspace((unsigned char)*text))
        text++;
    size_t length = strlen(text);
    while (length && isspace((unsigned char)text[length - 1]))
        text[--length] = 0;
    return text;
}

/* Splits `key = value` in place; NULL without a '='. */
static char *split(char *assignment)
{
    char *equals = strchr(assignment, '=');
    if (!equals)
        return NULL;
    *equals = 0;
    return strip(equals + 1);
}

static bool apply_line(struct config *config, char *line, struct problem *problem)
{
    char *key = strip(line);
    if (!*key || *key == '#')
        return true;
    char *value = split(key);
    if (!value)
        return problem_set(problem, "%.200s: must read key=value", key);
    return set_key(config, strip(key), value, problem);
}

static bool apply_file(struct config *config, const char *path, struct problem *problem)
{
    char line[2 * CONFIG_TEXT_BYTES];
    int number = 0;
    bool is_good = true;
    struct problem inner;
    FILE *file = fopen(path, "r");
    if (!file)
        return problem_set(problem, "conf=%.200s: cannot be read: %s; create it or name another file", path,
                           strerror(errno));
    /* On past a bad line: the first problem is told, but `dir` may stand further down and is where it is told. */
    while (fgets(line, sizeof line, file)) {
        number++;
        if (!apply_line(config, line, &inner) && is_good)
            is_good = problem_set(problem, "%.200s line %d: %.290s", path, number, inner.text);
    }
    if (is_good && ferror(file))
        is_good = problem_set(problem, "conf=%.200s: cannot be read: %s; name a file", path, strerror(errno));
    fclose(file);
    return is_good;
}

bool config_apply(struct config *config, const char *assignment, struct problem *problem)
{
    char copy[2 * CONFIG_TEXT_BYTES];
    if (strlen(assignment) >= sizeof copy)
        return problem_set(problem, "%.60s...: too long, at most %zu characters", assignment, sizeof copy - 1);
    strcpy(copy, assignment);
    char *value = split(copy);
    if (!value)
        return problem_set(problem, "%.200s: must read key=value", assignment);
    const char *key = strip(copy);
    if (!strcmp(key, "conf"))
        return apply_file(config, value, problem);
    return set_key(config, key, value, problem);
}

static bool check_sets(const char *level, uint32_t kib, uint32_t ways, struct problem *problem)
{
    uint32_t lines = kib * 1024 >> LINE_SHIFT;
    uint32_t sets = lines / ways;
    /* Fewer sets than lines in a page would give two lines of one page the same set and tag. */
    if (lines % ways || sets & (sets - 1) || sets < LINES_PER_PAGE)
        return problem_set(problem,
                           "%s_kib=%u with %s_ways=%u: size / 64 bytes / ways must be a power of two of at least "
                           "%u sets, and here is %u.%02u",
                           level, kib, level, ways, LINES_PER_PAGE, sets, lines % ways * 100 / ways);
    return true;
}

bool config_check(const struct config *config, struct problem *problem)
{
    const struct model_config *model = &config->model;
    if (!check_sets("l2", model->l2_kib, model->l2_ways, problem))
        return false;
    if (!check_sets("llc", model->llc_kib, model->llc_ways, problem))
        return false;
    if (model->llc_kib < model->l2_kib)
        return problem_set(problem, "llc_kib=%u: must be at least l2_kib=%u", model->llc_kib, model->l2_kib);
    if (model->latency_remote < model->latency_local)
        return problem_set(problem, "latency_remote=%u: must be at least latency_local=%u", model->latency_remote,
                           model->latency_local);
    if (config->cpus && config->busy)
        return problem_set(problem, "busy=1 with cpus=%u: modelled CPUs share out modelled time already; remove busy",
                           config->cpus);
    if (!config->cpus && strcmp(config->siblings, "none"))
        return problem_set(problem, "siblings=%.60s: only modelled CPUs have some; set cpus too", config->siblings);
    return true;
}

void config_describe(void)
{
    for (size_t i = 0; i < COUNT(TEXTS); i++)
        printf("%-23s %-10s %s\n", TEXTS[i].name, *TEXTS[i].standard ? TEXTS[i].standard : "-", TEXTS[i].help);
    for (size_t i = 0; i < COUNT(NUMBERS); i++)
        printf("%-23s %-10u %s; %s%u to %u\n", NUMBERS[i].name, NUMBERS[i].standard, NUMBERS[i].help,
               NUMBERS[i].is_power_of_two ? "power of two, " : "", NUMBERS[i].min, NUMBERS[i].max);
}
