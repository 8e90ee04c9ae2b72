"""Signatures of verdicts: one text for one verdict, whatever program wrote its JSON, and Ed25519 over it.

What is signed is the verdict as it travels, without `receipt.signature`, in this form (`FORM`):

1. members whose value is null are left out, at every depth: in the contract a missing member and null mean the same,
   so a verdict that passed through a newer version, which knows more members, keeps its signature;
2. integers beyond 2^53 - 1 become strings of their decimal digits (RFC 8785, appendix D);
3. JSON Canonicalization Scheme (RFC 8785): members in order, no spaces, numbers as ECMAScript writes them;
4. the line `assay-verdict-1` stands before it, so that a signature of anything else is never one of a verdict.

Ed25519: RFC 8032. Keys and signatures are written as hexadecimal digits of their raw bytes.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any, Final

import rfc8785
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

FORM: Final = "assay-verdict-1"
_SAFE: Final = (1 << 53) - 1
_KEY: Final = re.compile(r"[0-9a-f]{64}")


class NotCanonicalError(ValueError):
    """Not JSON, or JSON that two readers may understand differently; the text says why."""


class Signer:
    """One private key. It never shows it, and it is safe to share between threads."""

    def __init__(self, secret: str) -> None:
        """`secret`: 64 hexadecimal digits, the seed of RFC 8032. Raises ValueError for anything else."""
        if not _KEY.fullmatch(secret):
            raise ValueError("a signing key is 64 hexadecimal digits (0-9, a-f)")
        self._private = Ed25519PrivateKey.from_private_bytes(bytes.fromhex(secret))
        self.public_key: Final = self._private.public_key().public_bytes_raw().hex()
        """64 hexadecimal digits, for everyone to know."""

    @property
    def key_id(self) -> str:
        """See `key_id`."""
        return key_id(self.public_key)

    def sign(self, text: bytes) -> str:
        """128 hexadecimal digits."""
        return self._private.sign(text).hex()


def key_id(public_key: str) -> str:
    """A short name of a key: the first 16 digits of the SHA-256 of its 32 bytes. Raises ValueError for no key."""
    if not _KEY.fullmatch(public_key):
        raise ValueError("a public key is 64 hexadecimal digits (0-9, a-f)")
    return hashlib.sha256(bytes.fromhex(public_key)).hexdigest()[:16]


def is_genuine(text: bytes, signature: str, public_key: str) -> bool:
    """Whether the owner of `public_key` signed exactly `text`. What is no key or no signature is not genuine."""
    try:
        Ed25519PublicKey.from_public_bytes(bytes.fromhex(public_key)).verify(bytes.fromhex(signature), text)
    except (ValueError, InvalidSignature):
        return False
    return True


def signed_text(verdict: Mapping[str, Any]) -> bytes:
    """What a signature of `verdict` (its JSON, read) is made of. Raises NotCanonicalError."""
    receipt = verdict.get("receipt")
    if isinstance(receipt, Mapping):
        verdict = {**verdict, "receipt": {name: value for name, value in receipt.items() if name != "signature"}}
    try:
        return FORM.encode() + b"\n" + rfc8785.dumps(_plain(verdict))
    except (rfc8785.CanonicalizationError, RecursionError) as error:
        raise NotCanonicalError(str(error)) from error


def read_json(text: bytes) -> Any:
    """JSON that every reader understands alike: no member twice, no NaN, no number too large. Raises
    NotCanonicalError.
    """
    try:
        return json.loads(text.decode(), object_pairs_hook=_members, parse_constant=_no_constant, parse_float=_finite)
    except NotCanonicalError:
        raise
    except (ValueError, RecursionError) as error:
        raise NotCanonicalError(f"it is not JSON: {error}") from error


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _plain(member) for name, member in value.items() if member is not None}
    if isinstance(value, list | tuple):
        return [_plain(member) for member in value]
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > _SAFE:
        return str(value)
    return value


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in found if names.count(name) > 1)
        raise NotCanonicalError(f"the member {twice[:60]!r} is there twice")
    return found


def _no_constant(name: str) -> Any:
    raise NotCanonicalError(f"{name} is no number in JSON")


def _finite(digits: str) -> float:
    value = float(digits)
    if value in (float("inf"), float("-inf")):
        raise NotCanonicalError(f"the number {digits[:30]} is beyond every float")
    return value
