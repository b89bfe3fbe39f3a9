// SPDX-License-Identifier: Apache-2.0
/* `vpmu siblings [ROOT]`: what siblings=auto reads below ROOT, as the pairs that the option takes. */
#include <stdio.h>

#include "command.h"
#include "siblings.h"

int command_siblings(const char *root)
{
    struct siblings siblings;
    struct problem problem;
    const char *separator = "";
    if (!siblings_read(&siblings, "auto", root ? root : SIBLINGS_SYSFS, &problem)) {
        fprintf(stderr, "vpmu: %s\n", problem.text);
        return 1;
    }
    for (unsigned int cpu = 0; cpu < VPMU_MAX_CPUS; cpu++)
        if (siblings.of_cpu[cpu] > cpu + 1) {
            printf("%s%u:%u", separator, cpu, siblings.of_cpu[cpu] - 1u);
            separator = ";";
        }
    printf("%s\n", *separator ? "" : "none");
    return 0;
}
