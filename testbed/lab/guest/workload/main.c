// SPDX-License-Identifier: Apache-2.0
// Runs the work it is given, one process per track, each on its own vCPU, and reports in lines meant for grep:
//     RATE <kind> t=<uptime s> epoch=<unix s> ops=<operations per s> vcpu=<n> ...
//     SWITCH <kind> uptime=<s> epoch=<unix s> vcpu=<n> from=<kind>
// Knows nothing of what a kind does; rates come from the monotonic clock, so suspending the guest does not bend them.

#define _GNU_SOURCE // sched_setaffinity
#include <errno.h>
#include <getopt.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "workload.h"

struct options {
    int64_t period_ns;
    long reports; // 0: forever
};

_Noreturn void die(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fputs("workload: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    _exit(2);
}

// One write per line: lines of several tracks on one console never mix.
static void print_line(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void print_line(const char *format, ...)
{
    char line[256];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(line, sizeof(line), format, arguments);
    va_end(arguments);
    if (write(STDOUT_FILENO, line, (size_t)length) < 0)
        _exit(1);
}

static double in_seconds(int64_t ns)
{
    return (double)(ns / 1000000) / 1000;
}

static void report_rate(struct phase *phase, int vcpu, uint64_t operations, int64_t took_ns)
{
    char details[96] = "";
    if (phase->kind->describe != NULL)
        phase->kind->describe(phase, details, sizeof(details));
    print_line("RATE %s t=%.3f epoch=%.3f ops=%.0f vcpu=%d%s\n", phase->kind->name, in_seconds(uptime_ns()),
               in_seconds(epoch_ns()), (double)operations * (double)NS_PER_S / (double)took_ns, vcpu, details);
}

static int64_t end_of(const struct phase *phase, int64_t began_ns)
{
    if (phase->until_ns > 0)
        return phase->until_ns;
    return phase->lasts_ns > 0 ? began_ns + phase->lasts_ns : INT64_MAX;
}

// Returns how many reports are still wanted. What a phase did after its last full period is not reported.
static long run_phase(struct phase *phase, int vcpu, const struct options *options, long reports)
{
    int64_t period_began_ns = uptime_ns(), now_ns = period_began_ns;
    int64_t end_ns = end_of(phase, now_ns);
    uint64_t operations = 0;
    while (now_ns < end_ns) {
        int64_t period_ends_ns = period_began_ns + options->period_ns;
        operations += phase->kind->run(phase, period_ends_ns < end_ns ? period_ends_ns : end_ns);
        now_ns = uptime_ns();
        if (now_ns < period_ends_ns)
            continue;
        report_rate(phase, vcpu, operations, now_ns - period_began_ns);
        if (--reports == 0)
            return 0;
        period_began_ns = now_ns;
        operations = 0;
    }
    return reports;
}

static void prepare_track(struct track *track)
{
    for (int i = 0; i < track->count; i++) {
        struct phase *phase = &track->phases[i], *before = i > 0 ? phase - 1 : NULL;
        if (phase->kind->goes_on && before && before->kind == phase->kind && before->bytes == phase->bytes)
            phase->state = before->state;
        else
            phase->kind->prepare(phase);
    }
}

static void run_track(struct track *track, int vcpu, const struct options *options)
{
    long reports = options->reports;
    prepare_track(track);
    for (int i = 0; i < track->count; i++) {
        if (i > 0)
            print_line("SWITCH %s uptime=%.3f epoch=%.3f vcpu=%d from=%s\n", track->phases[i].kind->name,
                       in_seconds(uptime_ns()), in_seconds(epoch_ns()), vcpu, track->phases[i - 1].kind->name);
        reports = run_phase(&track->phases[i], vcpu, options, reports);
        if (options->reports > 0 && reports == 0)
            return;
    }
}

// The track's number picks the vCPU; more tracks than vCPUs share them. Returns the vCPU.
static int move_to_vcpu(int track)
{
    cpu_set_t allowed, one;
    sched_getaffinity(0, sizeof(allowed), &allowed);
    int skip = track % CPU_COUNT(&allowed), vcpu = 0;
    while (!CPU_ISSET(vcpu, &allowed) || skip-- > 0)
        vcpu++;
    CPU_ZERO(&one);
    CPU_SET(vcpu, &one);
    sched_setaffinity(0, sizeof(one), &one);
    return vcpu;
}

static void join_tracks(struct work *work)
{
    for (int i = 0; i < work->count; i++)
        for (int j = 0; j < work->tracks[i].count; j++)
            if (work->tracks[i].phases[j].kind->join != NULL)
                work->tracks[i].phases[j].kind->join(&work->tracks[i].phases[j]);
}

static int run_work(struct work *work, const struct options *options)
{
    pid_t pids[MAX_TRACKS];
    int failure = 0, status;
    join_tracks(work);
    for (int i = 0; i < work->count; i++) {
        pids[i] = fork();
        if (pids[i] < 0)
            die("cannot start track %d: %s", i, strerror(errno));
        if (pids[i] == 0) {
            run_track(&work->tracks[i], move_to_vcpu(i), options);
            _exit(0);
        }
    }
    for (int i = 0; i < work->count; i++) {
        waitpid(pids[i], &status, 0);
        if (WIFSIGNALED(status))
            fprintf(stderr, "workload: track %d was ended by signal %d; is the guest short of memory?\n", i,
                    WTERMSIG(status));
        if (status != 0)
            failure = WIFEXITED(status) ? WEXITSTATUS(status) : 1;
    }
    return failure;
}

static long parse_count(const char *name, const char *text)
{
    char *end;
    long value = strtol(text, &end, 10);
    if (*end != '\0' || value < 1 || value > 1000000)
        die("--%s takes a whole number from 1 to 1000000, not '%s'", name, text);
    return value;
}

int main(int argc, char **argv)
{
    static const struct option known[] = {
        {"period-ms", required_argument, NULL, 'p'},
        {"reports", required_argument, NULL, 'r'},
        {0},
    };
    struct options options = {.period_ns = NS_PER_S};
    static struct work work;
    for (int option; (option = getopt_long(argc, argv, "", known, NULL)) != -1;) {
        if (option == 'p')
            options.period_ns = parse_count("period-ms", optarg) * (NS_PER_S / 1000);
        else if (option == 'r')
            options.reports = parse_count("reports", optarg);
        else
            optind = argc;
    }
    if (optind != argc - 1)
        die("usage: workload [--period-ms N] [--reports N] WORK");
    parse_work(argv[optind], &work);
    return run_work(&work, &options);
}
