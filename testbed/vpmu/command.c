// SPDX-License-Identifier: Apache-2.0
/* The `vpmu` command: reads arguments and calls the subcommand. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "config.h"

static const char USAGE[] =
    "usage: vpmu [--dir DIR] list [--json]\n"
    "       vpmu [--dir DIR] watch [VM...] [--interval-ms N] [--count N] [--json]\n"
    "       vpmu [--dir DIR] set VM mhz N | home NODE|first-touch\n"
    "       vpmu siblings [DIRECTORY like /sys/devices/system/cpu]\n"
    "       vpmu layout --json\n"
    "       vpmu options\n"
    "DIR is the plugin's dir= option, " VPMU_DEFAULT_DIR " by default.\n";

static int refuse(const char *what)
{
    fprintf(stderr, "vpmu: %s\n%s", what, USAGE);
    return 2;
}

/* False when the value is not a whole number from `min` on. */
static bool read_number(const char *text, long min, long *number)
{
    char *end;
    *number = strtol(text, &end, 10);
    return *text && !*end && *number >= min && *number <= 1000000000;
}

static int read_options(int argc, char **argv, struct command_options *options)
{
    static const struct option LONG[] = {
        {"dir", required_argument, NULL, 'd'},   {"json", no_argument, NULL, 'j'},
        {"interval-ms", required_argument, NULL, 'i'}, {"count", required_argument, NULL, 'n'},
        {"help", no_argument, NULL, 'h'},        {NULL, 0, NULL, 0},
    };
    int letter;
    while ((letter = getopt_long(argc, argv, "d:ji:n:h", LONG, NULL)) >= 0) {
        if (letter == 'd')
            options->directory = optarg;
        else if (letter == 'j')
            options->is_json = true;
        else if (letter == 'i' && !read_number(optarg, 10, &options->interval_ms))
            return refuse("--interval-ms must be a number of at least 10");
        else if (letter == 'n' && !read_number(optarg, 1, &options->count))
            return refuse("--count must be a number of at least 1");
        else if (letter == 'h')
            return printf("%s", USAGE), -1;
        else if (letter == '?')
            return refuse("see above");
    }
    return 0;
}

static int run(const struct command_options *options, char **words, int count)
{
    if (!count)
        return refuse("what shall I do?");
    if (!strcmp(words[0], "list") && count == 1)
        return command_list(options);
    if (!strcmp(words[0], "watch"))
        return command_watch(options, words + 1, count - 1);
    if (!strcmp(words[0], "set") && count == 4)
        return command_set(options, words[1], words[2], words[3]);
    if (!strcmp(words[0], "siblings") && count <= 2)
        return command_siblings(count == 2 ? words[1] : NULL);
    if (!strcmp(words[0], "layout") && count == 1 && options->is_json)
        return command_layout();
    if (!strcmp(words[0], "options") && count == 1)
        return config_describe(), 0;
    return refuse("unknown command, or wrong number of arguments");
}

int main(int argc, char **argv)
{
    struct command_options options = {.directory = VPMU_DEFAULT_DIR, .interval_ms = 1000};
    int refused = read_options(argc, argv, &options);
    if (refused)
        return refused < 0 ? 0 : refused;
    return run(&options, argv + optind, argc - optind);
}
