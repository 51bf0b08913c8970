"""Keys, canonical JSON, the hash chain and its verifier, signed heads and cursors. Stores keys, nothing else.

`bollard.trust.keys` is named where it is used: the cryptography behind it is large, and the journal does without.
"""

from bollard.trust.canonical import canonical_json, canonical_sha256
from bollard.trust.chain import ChainedRecord, Fault, Header, Report, genesis, link, sha256_of, verify_chain
from bollard.trust.cursor import open_cursor, seal_cursor
from bollard.trust.errors import BadCursor, BadSignature, KeyFileError, NotCanonical, TrustError
from bollard.trust.folders import make_folder, sync_folder
from bollard.trust.heads import Head, HeadSigner, HeadVerifier, SignedHead, sign_head, verify_head
from bollard.trust.runtime_proofs import connect_proof, enrol_proof

__all__ = [
    "BadCursor",
    "BadSignature",
    "ChainedRecord",
    "Fault",
    "Head",
    "HeadSigner",
    "HeadVerifier",
    "Header",
    "KeyFileError",
    "NotCanonical",
    "Report",
    "SignedHead",
    "TrustError",
    "canonical_json",
    "canonical_sha256",
    "connect_proof",
    "enrol_proof",
    "genesis",
    "link",
    "make_folder",
    "open_cursor",
    "seal_cursor",
    "sha256_of",
    "sign_head",
    "sync_folder",
    "verify_chain",
    "verify_head",
]
