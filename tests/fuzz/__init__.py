# SPDX-License-Identifier: Apache-2.0
"""Made-up input for everything that takes any: `python -m tests.fuzz`. Begin to read in `run`."""
