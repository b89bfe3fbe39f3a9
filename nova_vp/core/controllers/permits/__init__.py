# SPDX-License-Identifier: Apache-2.0
"""The controller `permits`: servers book LLC pollution, and who exceeds its permit loses CPU."""
