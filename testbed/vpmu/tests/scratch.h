// SPDX-License-Identifier: Apache-2.0
/* A directory below /tmp for one test, and small files in it. */
#ifndef VPMU_SCRATCH_H
#define VPMU_SCRATCH_H

#include <stdbool.h>
#include <stddef.h>

#define SCRATCH_PATH_BYTES 256

void scratch_make(void);
void scratch_remove(void);

/* Path of `name` in the scratch directory, valid until the fourth call from now. */
const char *scratch_path(const char *name);

/* Makes the folders on the way too. */
void scratch_write(const char *name, const void *bytes, size_t count);
void scratch_write_text(const char *name, const char *text);
bool scratch_has(const char *name);
long scratch_read(const char *name, void *bytes, size_t count);

#endif
