"""What can be wrong with receipts of attempts, and with the books that are computed again from them."""

from poolhouse_common.failure import NODE, PLATFORM, Failure

ENTRIES = (
    Failure(
        "receipt_key_changed",
        PLATFORM,
        "The pool signs with another key than before",
        "The first key that this node saw is pinned, so nobody can rewrite what was signed; the pool now has another.",
        "Ask the operator. If the new key is theirs, remove `receipts/portal.key` from the state folder.",
    ),
    Failure(
        "receipt_unsound",
        PLATFORM,
        "A receipt is not what was asked for",
        "The pool's answer holds another claim than the node's, or its signature does not fit.",
        "Update the agent. If it lasts, tell the operator the attempt and the code.",
    ),
    Failure(
        "receipt_differs",
        NODE,
        "Node and gateway saw different bytes",
        "The digest in the node's claim is not the one that the gateway took of the same attempt.",
        "Run the agent as it is published and put nothing between it and the pool. By itself this changes no pay.",
    ),
    Failure(
        "receipt_not_yours",
        NODE,
        "The attempt was another node's",
        "A claim named an attempt that the pool sent to another node; only the attempt's own may claim it.",
        "Run one agent on one state folder, and do not copy the folder to another machine.",
    ),
    Failure(
        "attempt_unknown",
        PLATFORM,
        "The pool has no record of the attempt",
        "Two days after it no gateway has brought in the attempt: it was never recorded, or the record is gone.",
        "Keep the claim's time and the code, and ask the operator.",
    ),
    Failure(
        "receipts_off",
        PLATFORM,
        "The pool gives no receipts",
        "It has no key to sign them with.",
        "The operator sets RECEIPT_SIGNING_KEY to base64 of 32 random bytes and restarts the portal.",
    ),
    Failure(
        "receipts_key_unknown",
        NODE,
        "It is not known which key the pool signs with",
        "The key is pinned with the first receipt that this node gets, and this state folder has none.",
        "Give it with `--portal-key`; ask the operator for it, or take it from another node of yours.",
    ),
    Failure(
        "signature_wrong",
        NODE,
        "A claim's signature does not fit",
        "The claim was changed after it was signed, or signed with another key than this node's.",
        "Update the agent; check that the state folder is this node's own.",
    ),
    Failure(
        "file_unreadable",
        NODE,
        "A file cannot be read",
        "It does not exist, may not be read by you, or is not of the kind that was asked for.",
        "Check the path. Receipts are one JSON object a line, prices and payouts one document as downloaded.",
    ),
)
