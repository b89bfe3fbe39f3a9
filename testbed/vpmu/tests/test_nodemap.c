// SPDX-License-Identifier: Apache-2.0
#include "nodemap.h"

#include <string.h>

#include "test.h"

static struct nodemap map;
static struct problem problem;

struct refusal {
    const char *text;
    const char *says;
};

static void each_socket_has_a_node_of_its_own_by_default(void)
{
    CHECK(nodemap_parse(&map, "one-to-one", 3, &problem));
    CHECK_EQUAL(map.node_count, 3);
    for (uint32_t socket = 0; socket < 3; socket++)
        CHECK_EQUAL(map.node_of_socket[socket], socket);
}

static void sockets_may_share_a_node(void)
{
    CHECK(nodemap_parse(&map, "0:0;1:0 2:1", 3, &problem));
    CHECK_EQUAL(map.node_count, 2);
    CHECK_EQUAL(map.node_of_socket[0], 0);
    CHECK_EQUAL(map.node_of_socket[1], 0);
    CHECK_EQUAL(map.node_of_socket[2], 1);
}

static void bad_maps_are_refused_with_what_is_allowed(void)
{
    static const struct refusal REFUSALS[] = {
        {"0:0;2:0", "socket below 2 (as cpumap has it) and node below 8"},
        {"0:8;1:0", "socket below 2 (as cpumap has it) and node below 8"},
        {"0:0;1", "must be socket:node"},
        {"0:0:0;1:0", "must be socket:node"},
        {"-1:0;1:0", "must be socket:node"},
        {"auto", "such as 0:0;1:0, or one-to-one"},
        {"0:0", "socket 1 has no node; add 1:NODE"},
        {" ; ", "socket 0 has no node; add 0:NODE"},
        {"0:0;1:0;0:1", "socket 0 is there twice"},
    };
    for (size_t i = 0; i < sizeof REFUSALS / sizeof REFUSALS[0]; i++) {
        CHECK(!nodemap_parse(&map, REFUSALS[i].text, 2, &problem));
        CHECK_CONTAINS(problem.text, REFUSALS[i].says);
    }
}

static void endless_maps_are_refused(void)
{
    char text[1000];
    memset(text, ' ', sizeof text);
    text[sizeof text - 1] = 0;
    CHECK(!nodemap_parse(&map, text, 2, &problem));
    CHECK_CONTAINS(problem.text, "name each socket once");
}

const struct test nodemap_tests[] = {
    {"each socket has a node of its own by default", each_socket_has_a_node_of_its_own_by_default},
    {"sockets may share a node", sockets_may_share_a_node},
    {"bad maps are refused with what is allowed", bad_maps_are_refused_with_what_is_allowed},
    {"endless maps are refused", endless_maps_are_refused},
    {NULL, NULL},
};
