// SPDX-License-Identifier: Apache-2.0
/* Why something was refused, in words for the operator: what was given, what is allowed or what to do next. */
#ifndef VPMU_PROBLEM_H
#define VPMU_PROBLEM_H

#include <stdbool.h>

struct problem {
    char text[512];
};

/* Always false, so that a refusal reads `return problem_set(...)`. */
__attribute__((format(printf, 2, 3))) bool problem_set(struct problem *problem, const char *format, ...);

#endif
