# SPDX-License-Identifier: Apache-2.0
"""vp-sim: a modelled host behind the drivers of a real one, for *what if* and for proof.

The truth (`apps`, `machine`, `contention`) is on one side of the drivers, the policies on the
other: a policy sees samples and changes guests, as on a real host. Read `run` first.
"""
