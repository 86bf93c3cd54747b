"""How the protocol could be wrong: names that protocol.pml knows, and what must catch each."""

from __future__ import annotations

from typing import NamedTuple

OVERLAP = "believes[i]"
LOST_UPDATE = "value==seen"
TOKENS_FALL = "fence>highest"
DEAD_IS_GRANTED = "dead[first]"
OVERTAKEN = "len(queue)"
HOLDS_AND_WAITS = "queue, 1, holder"
FREE_WITH_WAITERS = "listener[i]"
LEFT_BEHIND = "holder!="
NOT_ITS_OWN = "holder==me"
STUCK = "idle<"
GRANTED_AGAIN = "lost_data"


class Mutant(NamedTuple):
    """One mistake, in words, and a piece of the assertion that fails."""

    mistake: str
    caught_by: tuple[str, ...]


MUTANTS = {
    "NO_LOCAL_DEADLINE": Mutant("a holder that never looks at its own clock", (OVERLAP,)),
    "EXPIRES_EARLY": Mutant("a server that ends leases before the holder does", (OVERLAP,)),
    "LEASE_COUNTS_FROM_THE_REPLY": Mutant(
        "a lease counted from the reply instead of the request", (OVERLAP,)
    ),
    "LEASE_COUNTS_FROM_THE_MESSAGE": Mutant(
        "a lease counted from when the grant was heard", (OVERLAP,)
    ),
    "STALE_GRANTS_ARE_BELIEVED": Mutant(
        "a grant believed although the server has said since that another holds", (OVERLAP,)
    ),
    "RELEASES_ANYBODYS_HOLD": Mutant("release without comparing the token", (OVERLAP, LOST_UPDATE)),
    "EXTENDS_ANYBODYS_HOLD": Mutant("extend without comparing the token", (NOT_ITS_OWN,)),
    "NOT_IDEMPOTENT": Mutant(
        "a holder that asks again is sent to the queue", (HOLDS_AND_WAITS, OVERTAKEN)
    ),
    "HAND_OFF_KEEPS_THE_PLACE": Mutant(
        "a hand-off that leaves the new holder in the queue", (HOLDS_AND_WAITS,)
    ),
    "NEWCOMERS_OVERTAKE": Mutant(
        "a free lock granted to a newcomer while others queue", (OVERTAKEN, HOLDS_AND_WAITS)
    ),
    "DEAD_WAITERS_ARE_GRANTED": Mutant(
        "a hand-off that ignores the receiver count", (DEAD_IS_GRANTED,)
    ),
    "RELEASE_TELLS_NOBODY": Mutant("a release without hand-off", (FREE_WITH_WAITERS,)),
    "QUITTER_KEEPS_THE_GRANT": Mutant(
        "giving up while a grant is on its way, and keeping it", (LEFT_BEHIND, FREE_WITH_WAITERS)
    ),
    "QUITTER_STAYS_IN_THE_QUEUE": Mutant(
        "giving up and staying in the queue", (LEFT_BEHIND, FREE_WITH_WAITERS, HOLDS_AND_WAITS)
    ),
    "WAITERS_NEVER_ASK_AGAIN": Mutant("a waiter that trusts in messages alone", (STUCK,)),
    "LATE_QUESTIONS_COUNT": Mutant(
        "a late question that is answered as any other", (GRANTED_AGAIN,)
    ),
    "QUITTER_LEAVES_NO_MARK": Mutant(
        "giving up without a mark, though a question may come late", (GRANTED_AGAIN,)
    ),
    "FENCE_DIES_WITH_THE_DATA": Mutant(
        "a fencing token that is a counter in Redis", (TOKENS_FALL,)
    ),
    "RESOURCE_CHECKS_NOTHING": Mutant("a resource without fencing", (LOST_UPDATE,)),
    "RESOURCE_CHECKS_WRITES_ONLY": Mutant(
        "a resource that checks the fencing token on writes only", (LOST_UPDATE,)
    ),
}
