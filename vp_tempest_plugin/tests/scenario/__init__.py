# SPDX-License-Identifier: Apache-2.0
"""What servers experience. These tests steer hosts, so nothing else runs beside them."""
