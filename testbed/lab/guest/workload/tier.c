// SPDX-License-Identifier: Apache-2.0
// One tier of an application on several guests: answers HTTP requests on a port, computes for each as much as its
// class costs here, and asks the next tier before it answers. A process for each connection, so that the guest's own
// scheduler shares its vCPUs out among the requests, and a tier goes on while the next one works.

#define _GNU_SOURCE // affinities are inherited, accept
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "workload.h"

enum { MAX_CLASSES = 8, NAME_BYTES = 16, HEAD_BYTES = 1024, HTTP_PORT = 80, BACKLOG = 128, MAX_KILOROUNDS = 1000000 };

struct request_class {
    char name[NAME_BYTES];
    uint64_t rounds;
};

struct tier {
    struct request_class classes[MAX_CLASSES];
    int count;
    in_port_t port, next_port;
    struct in_addr next; // any address: it is the last one
    atomic_ulong *answered;
    uint64_t reported;
};

static bool set_address(struct tier *tier, const char *text)
{
    char address[INET_ADDRSTRLEN];
    const char *port = strchr(text, ':');
    size_t length = port != NULL ? (size_t)(port - text) : strlen(text);
    if (length >= sizeof(address))
        return false;
    memcpy(address, text, length);
    address[length] = '\0';
    tier->next_port = HTTP_PORT;
    bool is_port = port == NULL || parse_port(port + 1, &tier->next_port);
    return is_port && inet_pton(AF_INET, address, &tier->next) == 1;
}

static bool set_tier(void *state, const char *name, const char *value)
{
    struct tier *tier = state;
    if (strcmp(name, "next") == 0)
        return set_address(tier, value);
    if (strcmp(name, "port") == 0)
        return parse_port(value, &tier->port);
    long kilorounds = parse_whole(value, MAX_KILOROUNDS);
    if (kilorounds < 0 || tier->count == MAX_CLASSES || name[0] == '\0' || strlen(name) >= NAME_BYTES)
        return false;
    struct request_class *class = &tier->classes[tier->count++];
    strcpy(class->name, name);
    class->rounds = (uint64_t)kilorounds * 1000;
    return true;
}

void configure_tier(struct phase *phase, const char *text, const char *item)
{
    struct tier *tier = phase->state = calloc(1, sizeof(*tier));
    tier->port = HTTP_PORT;
    parse_settings(tier, text, item, set_tier,
                   "what a request of each class costs, and the next tier: 'tier:CLASS=KILOROUNDS;next=ADDRESS'");
}

// Reads up to the blank line that ends a head. Whoever asks waits for the answer, so that nothing follows it.
static bool read_head(int from, char *head)
{
    size_t length = 0;
    while (length < HEAD_BYTES - 1) {
        ssize_t got = read(from, head + length, HEAD_BYTES - 1 - length);
        if (got <= 0)
            return false;
        length += (size_t)got;
        head[length] = '\0';
        if (strstr(head, "\r\n\r\n") != NULL)
            return true;
    }
    return false;
}

static bool write_all(int to, const char *text)
{
    ssize_t length = (ssize_t)strlen(text);
    return send(to, text, (size_t)length, MSG_NOSIGNAL) == length;
}

static void send_at_once(int socket)
{
    int yes = 1;
    setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
}

static int connect_to_next(const struct tier *tier)
{
    struct sockaddr_in next = {.sin_family = AF_INET, .sin_port = htons(tier->next_port), .sin_addr = tier->next};
    int made = socket(AF_INET, SOCK_STREAM, 0);
    if (made >= 0 && connect(made, (struct sockaddr *)&next, sizeof(next)) != 0) {
        close(made);
        return -1;
    }
    if (made >= 0)
        send_at_once(made);
    return made;
}

// Keeps the connection in `next`. A tier that was started anew is asked over a new one.
static bool ask_next(const struct tier *tier, int *next, const char *head)
{
    static const char good[] = "HTTP/1.1 200 ";
    char answer[HEAD_BYTES];
    for (bool was_open = *next >= 0;; was_open = false) {
        if (*next < 0 && (*next = connect_to_next(tier)) < 0)
            return false;
        if (write_all(*next, head) && read_head(*next, answer))
            return strncmp(answer, good, strlen(good)) == 0;
        close(*next);
        *next = -1;
        if (!was_open)
            return false;
    }
}

// By the first word of the path.
static const struct request_class *class_of(const struct tier *tier, const char *head)
{
    const char *path = strstr(head, " /");
    if (path == NULL)
        return NULL;
    size_t length = strcspn(path + 2, "/? \r");
    for (int i = 0; i < tier->count; i++)
        if (strlen(tier->classes[i].name) == length && strncmp(tier->classes[i].name, path + 2, length) == 0)
            return &tier->classes[i];
    return NULL;
}

static const char *answer_to(const struct tier *tier, int *next, const char *head)
{
    const struct request_class *class = class_of(tier, head);
    if (class == NULL)
        return "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n";
    compute(class->rounds);
    if (tier->next.s_addr != INADDR_ANY && !ask_next(tier, next, head))
        return "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n";
    return "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
}

static _Noreturn void serve(const struct tier *tier, int client)
{
    char head[HEAD_BYTES];
    int next = -1;
    send_at_once(client);
    while (read_head(client, head) && write_all(client, answer_to(tier, &next, head)))
        atomic_fetch_add(tier->answered, 1);
    _exit(0);
}

static int listen_on(in_port_t port)
{
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_port = htons(port)};
    int made = socket(AF_INET, SOCK_STREAM, 0), yes = 1;
    setsockopt(made, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
    if (bind(made, (struct sockaddr *)&here, sizeof(here)) != 0 || listen(made, BACKLOG) != 0)
        die("cannot listen on port %d: %s", port, strerror(errno));
    return made;
}

static _Noreturn void accept_all(const struct tier *tier, int listener)
{
    signal(SIGCHLD, SIG_IGN); // nobody waits for them
    for (;;) {
        int client = accept(listener, NULL, NULL);
        if (client >= 0 && fork() == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            close(listener);
            serve(tier, client);
        }
        close(client);
    }
}

// Before the tracks are processes on one vCPU each: who serves may use all of them.
void join_tier(struct phase *phase)
{
    struct tier *tier = phase->state;
    tier->answered = mmap(NULL, sizeof(*tier->answered), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (tier->answered == MAP_FAILED)
        die("cannot share memory between the processes of a tier: %s", strerror(errno));
    int listener = listen_on(tier->port);
    pid_t pid = fork();
    if (pid < 0)
        die("cannot start the tier: %s", strerror(errno));
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        accept_all(tier, listener);
    }
    close(listener);
}

uint64_t run_tier(struct phase *phase, int64_t until_ns)
{
    struct tier *tier = phase->state;
    sleep_until(until_ns);
    uint64_t answered = atomic_load(tier->answered), fresh = answered - tier->reported;
    tier->reported = answered;
    return fresh;
}
