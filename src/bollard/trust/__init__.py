"""Keys, canonical JSON, the hash chain and its verifier, signed heads and cursors. Stores keys, nothing else."""

from bollard.trust.canonical import canonical_json, canonical_sha256
from bollard.trust.chain import ChainedRecord, Fault, Header, Report, genesis, link, sha256_of, verify_chain
from bollard.trust.cursor import open_cursor, seal_cursor
from bollard.trust.errors import BadCursor, BadSignature, KeyFileError, NotCanonical, TrustError
from bollard.trust.folders import make_folder, sync_folder
from bollard.trust.heads import Head, SignedHead, sign_head, verify_head
from bollard.trust.keys import SigningKey, VerifyKey, load_or_make_secret, load_or_make_signing_key
from bollard.trust.runtime_proofs import connect_proof, enrol_proof

__all__ = [
    "BadCursor",
    "BadSignature",
    "ChainedRecord",
    "Fault",
    "Head",
    "Header",
    "KeyFileError",
    "NotCanonical",
    "Report",
    "SignedHead",
    "SigningKey",
    "TrustError",
    "VerifyKey",
    "canonical_json",
    "canonical_sha256",
    "connect_proof",
    "enrol_proof",
    "genesis",
    "link",
    "load_or_make_secret",
    "load_or_make_signing_key",
    "make_folder",
    "open_cursor",
    "seal_cursor",
    "sha256_of",
    "sign_head",
    "sync_folder",
    "verify_chain",
    "verify_head",
]
