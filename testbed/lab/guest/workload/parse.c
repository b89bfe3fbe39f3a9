// SPDX-License-Identifier: Apache-2.0
// The grammar of `work=`, see ../README.md:
//     work = track { "+" track }    track = item { "," item }
//     item = kind [":" KiB | ":" settings] ["/" requests per second] ["@" seconds | "@until=" uptime]
//     settings = name "=" value { ";" name "=" value }
// Every mistake is refused here, before any clock runs, with the item that holds it.

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "workload.h"

enum { MAX_KIB = 1 << 20, MAX_REQUESTS_PER_S = 100000 };
static const double MAX_SECONDS = 1e7;

// Cuts text at the separator and returns what followed it, or NULL.
static char *cut(char *text, char separator)
{
    char *found = strchr(text, separator);
    if (found != NULL)
        *found++ = '\0';
    return found;
}

// Returns NAN for anything but a plain number within (0, max].
static double parse_number(const char *text, double max)
{
    char *end;
    if (!isdigit((unsigned char)text[0]))
        return NAN;
    double value = strtod(text, &end);
    return *end == '\0' && value > 0 && value <= max ? value : NAN;
}

static void parse_end(struct phase *phase, const char *text, const char *item)
{
    const char until[] = "until=";
    bool is_until = strncmp(text, until, strlen(until)) == 0;
    double seconds = parse_number(is_until ? text + strlen(until) : text, MAX_SECONDS);
    if (isnan(seconds))
        die("'%s': a time is seconds ('@20') or an uptime in seconds ('@until=40')", item);
    *(is_until ? &phase->until_ns : &phase->lasts_ns) = (int64_t)(seconds * (double)NS_PER_S);
}

long parse_whole(const char *text, long max)
{
    char *end;
    long value = isdigit((unsigned char)text[0]) ? strtol(text, &end, 10) : -1;
    return value >= 0 && value <= max && *end == '\0' ? value : -1;
}

bool parse_port(const char *text, uint16_t *port)
{
    long number = parse_whole(text, UINT16_MAX);
    *port = (uint16_t)number;
    return number > 0;
}

void parse_settings(void *state, const char *text, const char *item, bool (*set)(void *state, const char *name,
                    const char *value), const char *expected)
{
    char *copy = strdup(text != NULL ? text : ""), *setting = copy;
    for (char *rest; setting != NULL; setting = rest) {
        rest = cut(setting, ';');
        char *value = cut(setting, '=');
        if (value == NULL || !set(state, setting, value))
            die("'%s': write %s", item, expected);
    }
    free(copy);
}

static void parse_size(struct phase *phase, const char *text, const char *item)
{
    if (phase->kind->configure != NULL) {
        phase->kind->configure(phase, text, item);
        return;
    }
    if (phase->kind->default_kib == 0) {
        if (text != NULL)
            die("'%s': %s takes no working set, write a time as '%s@SECONDS'", item, phase->kind->name,
                phase->kind->name);
        return;
    }
    double kib = text == NULL ? (double)phase->kind->default_kib : parse_number(text, MAX_KIB);
    if (isnan(kib) || kib != floor(kib))
        die("'%s': a working set is a whole number of KiB from 1 to %d", item, MAX_KIB);
    phase->bytes = (size_t)kib * 1024;
}

static void parse_rate(struct phase *phase, const char *text, const char *item)
{
    if (text == NULL)
        return;
    phase->is_random = text[0] == '~';
    double requests_per_s = parse_number(phase->is_random ? text + 1 : text, MAX_REQUESTS_PER_S);
    if (!phase->kind->takes_rate)
        die("'%s': %s takes no request rate, only server does", item, phase->kind->name);
    if (isnan(requests_per_s))
        die("'%s': a rate is requests per second ('/100'; '/~100': on average), at most %d", item, MAX_REQUESTS_PER_S);
    phase->request_interval_ns = (int64_t)((double)NS_PER_S / requests_per_s);
}

static void parse_item(char *text, struct phase *phase)
{
    char *item = strdup(text);
    char *end = cut(text, '@'), *rate = cut(text, '/'), *size = cut(text, ':');
    if (text[0] == '\0')
        die("an item is empty; write the work as KIND[:KIB][@SECONDS], known kinds: %s", kind_names());
    phase->kind = find_kind(text);
    if (phase->kind == NULL)
        die("unknown kind '%s'; known kinds: %s", text, kind_names());
    parse_size(phase, size, item);
    parse_rate(phase, rate, item);
    if (end != NULL)
        parse_end(phase, end, item);
    free(item);
}

static bool is_endless(const struct phase *phase)
{
    return phase->lasts_ns == 0 && phase->until_ns == 0;
}

static struct phase *add_phase(struct track *track)
{
    if (track->count == MAX_PHASES)
        die("too many items in a row; %d is the most", MAX_PHASES - 1);
    return &track->phases[track->count++];
}

static void parse_track(char *text, struct track *track)
{
    for (char *rest; text != NULL; text = rest) {
        rest = cut(text, ',');
        if (track->count > 0 && is_endless(&track->phases[track->count - 1]))
            die("'%s' would never start: give the item before it a time, e.g. '%s@20'", text,
                track->phases[track->count - 1].kind->name);
        parse_item(text, add_phase(track));
    }
    if (!is_endless(&track->phases[track->count - 1]))
        add_phase(track)->kind = find_kind("idle");
}

void parse_work(const char *given, struct work *work)
{
    char *text = strdup(given), *copy = text;
    size_t length = strlen(text);
    while (length > 0 && isspace((unsigned char)text[length - 1]))
        text[--length] = '\0';
    for (char *rest; text != NULL; text = rest) {
        rest = cut(text, '+');
        if (work->count == MAX_TRACKS)
            die("too many '+'; %d tracks are the most", MAX_TRACKS);
        parse_track(text, &work->tracks[work->count++]);
    }
    free(copy);
}
