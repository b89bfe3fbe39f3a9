// SPDX-License-Identifier: Apache-2.0
#include "json.h"

#include <math.h>
#include <stdio.h>

void json_string(const char *text)
{
    putchar('"');
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            printf("\\%c", *text);
        else if ((unsigned char)*text < 0x20)
            printf("\\u%04x", (unsigned char)*text);
        else
            putchar(*text);
    }
    putchar('"');
}

void json_number(const char *key, double value, int decimals)
{
    if (isfinite(value))
        printf("\"%s\":%.*f", key, decimals, value);
    else
        printf("\"%s\":null", key);
}
