# SPDX-License-Identifier: Apache-2.0
"""One function per route: (call, path arguments) to what is answered as JSON."""
