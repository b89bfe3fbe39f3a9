// SPDX-License-Identifier: Apache-2.0
// Work that somebody outside hands out: a line on the second serial port with a number of rounds is a job, each track
// of the guest computes so many of them, and the last one that is ready answers with the line "done". Between jobs
// the guest rests. So an application's phases and barriers, also over several guests, are made by who plays its
// client.

#define _GNU_SOURCE // ppoll
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <termios.h>
#include <unistd.h>

#include "workload.h"

// What the tracks share. The first one reads the port; each has a pipe on which it gets its part.
struct desk {
    int port;
    int parts[MAX_TRACKS][2];
    int tracks;
    atomic_int unfinished;
};

struct share {
    struct desk *desk;
    int number;
    int64_t rounds_left;
};

static struct desk *desk; // of all tracks, made before they are processes of their own

static int open_port(void)
{
    const char *path = getenv("JOBS_PORT");
    if (path == NULL)
        path = "/dev/ttyS1";
    int port = open(path, O_RDWR | O_NOCTTY);
    if (port < 0)
        die("cannot open %s: %s; jobs come from the second serial port", path, strerror(errno));
    struct termios settings;
    if (tcgetattr(port, &settings) == 0) {
        cfmakeraw(&settings);
        tcsetattr(port, TCSANOW, &settings);
    }
    return port;
}

void join_jobs(struct phase *phase)
{
    if (desk == NULL) {
        desk = mmap(NULL, sizeof(*desk), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (desk == MAP_FAILED)
            die("cannot share memory between tracks: %s", strerror(errno));
        desk->port = open_port();
    }
    struct share *share = phase->state = calloc(1, sizeof(*share));
    *share = (struct share){.desk = desk, .number = desk->tracks++};
    if (share->number == MAX_TRACKS || pipe(desk->parts[share->number]) != 0)
        die("cannot make a pipe for a track of jobs");
}

// Reads one line, as it was written at once.
static void hand_out(struct desk *at)
{
    char line[32];
    ssize_t length = read(at->port, line, sizeof(line) - 1);
    if (length <= 0)
        return;
    line[length] = '\0';
    int64_t rounds = atoll(line);
    if (rounds <= 0)
        return;
    atomic_store(&at->unfinished, at->tracks);
    for (int i = 0; i < at->tracks; i++)
        if (write(at->parts[i][1], &rounds, sizeof(rounds)) != sizeof(rounds))
            die("a track of jobs takes no part: %s", strerror(errno));
}

static void wait_for_part(struct share *share, int64_t until_ns)
{
    struct desk *at = share->desk;
    int64_t wait_ns = until_ns - uptime_ns();
    if (wait_ns <= 0)
        return;
    struct timespec wait = {wait_ns / NS_PER_S, wait_ns % NS_PER_S};
    struct pollfd files[] = {{.fd = at->parts[share->number][0], .events = POLLIN}, {.fd = at->port, .events = POLLIN}};
    if (ppoll(files, share->number == 0 ? 2 : 1, &wait, NULL) <= 0)
        return;
    if (files[1].revents & POLLIN)
        hand_out(at);
    if (files[0].revents & POLLIN && read(files[0].fd, &share->rounds_left, sizeof(share->rounds_left)) < 0)
        die("a track of jobs gets no part: %s", strerror(errno));
}

uint64_t run_jobs(struct phase *phase, int64_t until_ns)
{
    static const char done[] = "done\n";
    struct share *share = phase->state;
    if (share->rounds_left <= 0) {
        wait_for_part(share, until_ns);
        return 0;
    }
    uint64_t rounds = run_compute(phase, until_ns);
    share->rounds_left -= (int64_t)rounds;
    if (share->rounds_left <= 0 && atomic_fetch_sub(&share->desk->unfinished, 1) == 1)
        if (write(share->desk->port, done, strlen(done)) < 0)
            die("nobody takes the answer: %s", strerror(errno));
    return rounds;
}
