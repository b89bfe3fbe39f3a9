// SPDX-License-Identifier: Apache-2.0
// The request/response server: a process that walks a working set for each request, and the client that measures it.
// Given a rate, requests fall due on a schedule and latency counts from the moment due, so that a stalled server is
// not flattered by a client that waited for it; without one the next request follows the answer. The schedule is at
// fixed intervals, or random as of many users (a Poisson process, the same one in each boot).

#define _GNU_SOURCE // ppoll
#include <errno.h>
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "workload.h"

enum { STEPS_PER_REQUEST = 1000, BUCKETS = 1024, BUCKETS_PER_OCTAVE = 32 };

// A request that could not be sent within this time is given up, as a client with a timeout would.
static const int64_t GIVE_UP_NS = 1000000000;

struct client {
    int socket;
    int64_t next_due_ns;
    unsigned short dice[3]; // of erand48
    uint32_t answers_by_latency[BUCKETS];
    uint32_t answers;
};

// Latencies in microseconds, exact below 64, then 32 buckets per doubling: within 3 %.
static unsigned bucket_of(uint64_t latency_us)
{
    if (latency_us > UINT32_MAX)
        latency_us = UINT32_MAX;
    int shift = latency_us < 2 * BUCKETS_PER_OCTAVE ? 0 : 63 - __builtin_clzll(latency_us) - 5;
    return shift * BUCKETS_PER_OCTAVE + (latency_us >> shift);
}

static uint64_t latency_of(unsigned bucket)
{
    if (bucket < 2 * BUCKETS_PER_OCTAVE)
        return bucket;
    int shift = bucket / BUCKETS_PER_OCTAVE - 1;
    return (uint64_t)(bucket - shift * BUCKETS_PER_OCTAVE) << shift;
}

static uint64_t percentile_us(const struct client *client, unsigned percent)
{
    uint64_t wanted = ((uint64_t)client->answers * percent + 99) / 100, seen = 0;
    for (unsigned bucket = 0; wanted > 0 && bucket < BUCKETS; bucket++)
        if ((seen += client->answers_by_latency[bucket]) >= wanted)
            return latency_of(bucket);
    return 0;
}

static _Noreturn void serve(int socket, struct node *at)
{
    int64_t due_ns;
    while (read(socket, &due_ns, sizeof(due_ns)) == sizeof(due_ns)) {
        at = walk(at, STEPS_PER_REQUEST);
        if (write(socket, &due_ns, sizeof(due_ns)) != sizeof(due_ns))
            break;
    }
    _exit(0);
}

void prepare_server(struct phase *phase)
{
    int sockets[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sockets) != 0)
        die("cannot make a socket pair: %s", strerror(errno));
    struct node *cycle = make_cycle(phase->bytes); // here, so that no request ever waits for it
    pid_t pid = fork();
    if (pid < 0)
        die("cannot start the server: %s", strerror(errno));
    if (pid == 0) {
        close(sockets[1]);
        serve(sockets[0], cycle);
    }
    close(sockets[0]);
    struct client *client = phase->state = calloc(1, sizeof(*client));
    client->socket = sockets[1];
}

// Returns whether the request is on its way; the socket takes a bounded number of unanswered ones.
static bool send_request(struct client *client, int64_t due_ns)
{
    ssize_t sent = send(client->socket, &due_ns, sizeof(due_ns), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0 && errno != EAGAIN)
        die("the server process has died: %s", strerror(errno));
    return sent == sizeof(due_ns);
}

static void receive_answer(struct client *client)
{
    int64_t due_ns;
    if (read(client->socket, &due_ns, sizeof(due_ns)) != sizeof(due_ns))
        die("the server process has died; does its working set fit into the guest's memory?");
    client->answers_by_latency[bucket_of((uptime_ns() - due_ns) / 1000)]++;
    client->answers++;
}

static int64_t next_interval_ns(struct client *client, const struct phase *phase)
{
    double mean_ns = (double)phase->request_interval_ns;
    return phase->is_random ? (int64_t)(-log(1.0 - erand48(client->dice)) * mean_ns) : phase->request_interval_ns;
}

static uint64_t run_scheduled(struct client *client, const struct phase *phase, int64_t until_ns)
{
    int64_t now_ns = uptime_ns();
    if (client->next_due_ns == 0)
        client->next_due_ns = now_ns;
    if (client->next_due_ns < now_ns - GIVE_UP_NS)
        client->next_due_ns = now_ns - GIVE_UP_NS;
    while (client->next_due_ns <= now_ns && send_request(client, client->next_due_ns))
        client->next_due_ns += next_interval_ns(client, phase);

    int64_t wake_ns = client->next_due_ns > now_ns && client->next_due_ns < until_ns ? client->next_due_ns : until_ns;
    int64_t wait_ns = wake_ns > now_ns ? wake_ns - now_ns : 0;
    struct timespec wait = {wait_ns / NS_PER_S, wait_ns % NS_PER_S};
    struct pollfd answer = {.fd = client->socket, .events = POLLIN};
    if (ppoll(&answer, 1, &wait, NULL) <= 0)
        return 0;
    receive_answer(client);
    return 1;
}

uint64_t run_server(struct phase *phase, int64_t until_ns)
{
    struct client *client = phase->state;
    if (phase->request_interval_ns > 0)
        return run_scheduled(client, phase, until_ns);
    send_request(client, uptime_ns());
    receive_answer(client);
    return 1;
}

void describe_server(struct phase *phase, char *text, size_t size)
{
    struct client *client = phase->state;
    snprintf(text, size, " p50_us=%lu p95_us=%lu p99_us=%lu", percentile_us(client, 50), percentile_us(client, 95),
             percentile_us(client, 99));
    memset(client->answers_by_latency, 0, sizeof(client->answers_by_latency));
    client->answers = 0;
}
