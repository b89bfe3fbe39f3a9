# SPDX-License-Identifier: Apache-2.0
"""`openstack vp …` and the REST client below it. Commands show what the API answers, no more:
tenant and operator see different rows because the API gives them different keys.
"""
