# SPDX-License-Identifier: Apache-2.0
"""The decision core: values in, values out.

Standard library only. No I/O, clock, logging, configuration, threads or randomness: time and
policy come in as arguments. The import-rule test holds this folder to it. Start at `step.py`.

"The thesis" in these files: P. Tembey, Virtual Platforms: Achieving Performance and Isolation
Properties in Virtualized Shared Multicore Systems, Georgia Institute of Technology, 2013.
"""
