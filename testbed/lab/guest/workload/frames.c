// SPDX-License-Identifier: Apache-2.0
// A player of a stream: takes RTP packets from a port of UDP and computes for each frame that has arrived whole. The
// last packet of a frame has the marker bit. What comes while it computes waits in its socket, in whose buffer there is
// room for some seconds; beyond that it is lost, and with a packet its frame.

#define _GNU_SOURCE // ppoll
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "workload.h"

enum { RTP_PORT = 5004, PACKET_BYTES = 2048, RTP_HEAD_BYTES = 12, BUFFER_BYTES = 8 << 20, MAX_KILOROUNDS = 1000000 };

struct player {
    uint64_t rounds; // of a frame
    in_port_t port;
    int socket;
    bool has_begun, is_damaged; // the frame that is arriving
    uint16_t next_number;
    uint32_t damaged_frames, lost_packets; // since they were told last
};

static bool set_player(void *state, const char *name, const char *value)
{
    struct player *player = state;
    if (strcmp(name, "port") == 0)
        return parse_port(value, &player->port);
    long kilorounds = parse_whole(value, MAX_KILOROUNDS);
    player->rounds = (uint64_t)kilorounds * 1000;
    return strcmp(name, "decode") == 0 && kilorounds >= 0;
}

void configure_frames(struct phase *phase, const char *text, const char *item)
{
    struct player *player = phase->state = calloc(1, sizeof(*player));
    player->port = RTP_PORT;
    parse_settings(player, text, item, set_player, "what a frame costs: 'frames:decode=KILOROUNDS'");
}

void prepare_frames(struct phase *phase)
{
    struct player *player = phase->state;
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_port = htons(player->port)};
    player->socket = socket(AF_INET, SOCK_DGRAM, 0);
    if (player->socket < 0 || bind(player->socket, (struct sockaddr *)&here, sizeof(here)) != 0)
        die("cannot receive at port %d: %s", player->port, strerror(errno));
    int bytes = BUFFER_BYTES;
    if (setsockopt(player->socket, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof(bytes)) != 0)
        die("no buffer of %d bytes: %s", bytes, strerror(errno));
}

static bool is_rtp(const uint8_t *packet, ssize_t length)
{
    return length >= RTP_HEAD_BYTES && packet[0] >> 6 == 2;
}

// Returns whether a frame is whole with this packet.
static bool take(struct player *player, const uint8_t *packet)
{
    uint16_t number = (uint16_t)(packet[2] << 8 | packet[3]);
    uint16_t missing = player->has_begun ? (uint16_t)(number - player->next_number) : 0;
    bool is_last = packet[1] & 0x80;
    player->has_begun = true;
    player->next_number = (uint16_t)(number + 1);
    player->lost_packets += missing;
    player->is_damaged |= missing > 0;
    if (!is_last)
        return false;
    bool is_whole = !player->is_damaged;
    player->damaged_frames += !is_whole;
    player->is_damaged = false;
    return is_whole;
}

uint64_t run_frames(struct phase *phase, int64_t until_ns)
{
    struct player *player = phase->state;
    uint8_t packet[PACKET_BYTES];
    int64_t wait_ns = until_ns - uptime_ns();
    if (wait_ns < 0)
        wait_ns = 0;
    struct timespec wait = {wait_ns / NS_PER_S, wait_ns % NS_PER_S};
    struct pollfd ready = {.fd = player->socket, .events = POLLIN};
    if (ppoll(&ready, 1, &wait, NULL) <= 0)
        return 0;
    ssize_t length = read(player->socket, packet, sizeof(packet));
    if (!is_rtp(packet, length) || !take(player, packet))
        return 0;
    compute(player->rounds);
    return 1;
}

void describe_frames(struct phase *phase, char *text, size_t size)
{
    struct player *player = phase->state;
    snprintf(text, size, " damaged=%u lost=%u", player->damaged_frames, player->lost_packets);
    player->damaged_frames = player->lost_packets = 0;
}
