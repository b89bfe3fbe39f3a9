// SPDX-License-Identifier: Apache-2.0
/* The libvirt domain name that QEMU was started with, and which names may become file names. */
#ifndef VPMU_GUEST_NAME_H
#define VPMU_GUEST_NAME_H

#include "problem.h"
#include "vpmu_layout.h"

/* Finds `-name guest=NAME,...` or `-name NAME` among NUL-separated arguments; false if there is none. */
bool guest_name_find(const char *arguments, size_t bytes, char name[VPMU_NAME_BYTES]);

/* The same from /proc/self/cmdline. */
bool guest_name_read(char name[VPMU_NAME_BYTES], struct problem *problem);

bool guest_name_check(const char *name, struct problem *problem);

#endif
