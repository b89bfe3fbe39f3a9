# SPDX-License-Identifier: Apache-2.0
"""What became of an action, as the database and the API name it: the results that an agent tells,
and those of a proposal.
"""

from nova_vp.core.types.action import Result

PROPOSED = "proposed"
"""It waits for an operator."""
WITHDRAWN = "withdrawn"
"""It was proposed, and its agent does not propose it any more: it cannot be accepted."""
RESULTS = (PROPOSED, WITHDRAWN, *(result.value for result in Result))
NEVER_DONE = (PROPOSED, WITHDRAWN, Result.REJECTED.value)
NO_PROPOSAL = "there is no proposal"
"""How an agent begins to refuse a word on an action that it does not propose any more."""
