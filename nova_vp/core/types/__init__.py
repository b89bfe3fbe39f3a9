# SPDX-License-Identifier: Apache-2.0
"""Values that the decision core is made of. Nothing here decides, reads or converts.

Every type is frozen. What could not be read is present as missing, with the reason. Units are in
the names. Types that are made anew for every VP in every tick are named tuples, which cost a third
of a dataclass.
"""
