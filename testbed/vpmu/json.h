// SPDX-License-Identifier: Apache-2.0
/* The little JSON that the vpmu command writes: strings escaped, ratios that have no value as null. */
#ifndef VPMU_JSON_H
#define VPMU_JSON_H

void json_string(const char *text);

/* `"key":value`, null when the value is not a number (a division by zero). */
void json_number(const char *key, double value, int decimals);

#endif
