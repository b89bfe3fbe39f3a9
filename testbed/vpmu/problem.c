// SPDX-License-Identifier: Apache-2.0
#include "problem.h"

#include <stdarg.h>
#include <stdio.h>

bool problem_set(struct problem *problem, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(problem->text, sizeof problem->text, format, arguments);
    va_end(arguments);
    return false;
}
