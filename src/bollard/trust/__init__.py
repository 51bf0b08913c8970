"""Keys, canonical JSON, the hash chain and its verifier, signed heads and cursors. Stores only key files.

`bollard.trust.keys` is imported separately: it loads cryptography, which is large and which the journal does not need.
"""

from bollard.trust.canonical import canonical_json, canonical_sha256
from bollard.trust.chain import ChainedRecord, Fault, Header, Report, genesis, link, sha256_of, verify_chain
from bollard.trust.cursor import open_cursor, seal_cursor
from bollard.trust.errors import BadCursor, BadSignature, KeyFileError, NotCanonical, TrustError
from bollard.trust.heads import (
    Head,
    HeadSigner,
    HeadVerifier,
    SignedHead,
    connect_proof,
    enrol_proof,
    sign_head,
    verify_head,
)
from bollard.trust.key_files import make_folder, sync_folder

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
