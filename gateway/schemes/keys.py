"""Keys and candidates: what a signature is compared with, decoded to full length before anything is compared."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from gateway.late import Late
from gateway.schemes.scheme import Algorithm
from gateway.secret import Secret
from gateway.signing import PUBLIC_PREFIX, check_point

if TYPE_CHECKING:
    from cryptography import exceptions, x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
else:  # 7 MB, and most triggers have secrets that both sides know
    _PRIMITIVES = "cryptography.hazmat.primitives"
    exceptions, x509 = Late("cryptography.exceptions"), Late("cryptography.x509")
    hashes, serialization = Late(f"{_PRIMITIVES}.hashes"), Late(f"{_PRIMITIVES}.serialization")
    ec, ed25519 = Late(f"{_PRIMITIVES}.asymmetric.ec"), Late(f"{_PRIMITIVES}.asymmetric.ed25519")
    padding, rsa = Late(f"{_PRIMITIVES}.asymmetric.padding"), Late(f"{_PRIMITIVES}.asymmetric.rsa")

Match = Callable[[bytes, Sequence[bytes]], bool]
"""Whether any key made any of the candidates for a message; tries all, so that time does not tell which."""

_SIZES: dict[Algorithm, range | tuple[int]] = {
    "sha256": (32,),
    "sha1": (20,),
    "sha512": (64,),
    "plain-sha256": (32,),
    "ed25519": (64,),
    "ecdsa-p256": range(8, 73),  # DER
    "rsa-sha256": range(128, 1025),
}
_ASYMMETRIC = frozenset({"ed25519", "ecdsa-p256", "rsa-sha256"})


def decode_key(secret: Secret, encoding: str) -> bytes:
    """The MAC's key; raises ValueError, without showing the secret, if it is empty or not of the encoding."""
    text = secret.reveal()
    try:
        if encoding == "hex":
            key = bytes.fromhex(text)
        elif encoding == "utf-8":
            key = text.encode()
        else:
            text = text.removeprefix("whsec_") if encoding == "whsec" else text
            key = binascii.a2b_base64(text + "=" * (-len(text) % 4), strict_mode=True)
    except ValueError:
        raise ValueError(f"a secret is not valid {encoding}; see secret_encoding") from None
    if not key:
        raise ValueError("a secret is empty; give a secret or remove the entry")
    return key


def decode_digest(text: str, encoding: str) -> bytes:
    """The bytes of a hex or canonical base64 text, empty if it is anything else; base64url may lack its padding.

    Python's strict base64 still takes surplus padding and stray last bits: hence the way back. `bytes.fromhex` skips
    white space: hence the length.
    """
    try:
        if encoding == "hex":
            digest = bytes.fromhex(text)
            return digest if 2 * len(digest) == len(text) else b""
        if encoding == "base64url":
            digest = base64.urlsafe_b64decode(text.rstrip("=") + "=" * (-len(text.rstrip("=")) % 4))
            padded = base64.urlsafe_b64encode(digest).decode()
            return digest if text in (padded, padded.rstrip("=")) else b""
        digest = binascii.a2b_base64(text, strict_mode=True)
        return digest if binascii.b2a_base64(digest, newline=False) == text.encode() else b""
    except ValueError:
        return b""


def encode_digest(digest: bytes, encoding: str) -> str:
    """The text that `decode_digest` reads."""
    if encoding == "hex":
        return digest.hex()
    if encoding == "base64url":
        return base64.urlsafe_b64encode(digest).decode().rstrip("=")
    return base64.b64encode(digest).decode()


def digest_sizes(algorithm: Algorithm) -> range | tuple[int]:
    """How many bytes a signature by this algorithm can have."""
    return _SIZES[algorithm]


def matcher(secrets: Sequence[Secret], algorithm: Algorithm, encoding: str) -> Match:
    """How messages are compared under these secrets (public keys, where the algorithm is asymmetric).

    Raises ValueError, without showing a secret, if one cannot be used.
    """
    if not secrets:
        raise ValueError("secrets needs at least one secret")
    if algorithm in _ASYMMETRIC:
        return _signature_matcher([_public_key(secret.reveal(), algorithm) for secret in secrets], algorithm)
    return _digest_matcher([_keyed(decode_key(secret, encoding), algorithm) for secret in secrets])


def _keyed(key: bytes, algorithm: Algorithm) -> Callable[[bytes], bytes]:
    """The MAC of a message under a key that is hashed once, and not for each of them."""
    if algorithm == "plain-sha256":
        begun = hashlib.sha256(key)

        def plain(message: bytes) -> bytes:
            own = begun.copy()
            own.update(message)
            return own.digest()

        return plain
    # HMAC by its two hashes (RFC 2104): around them `hmac`'s own object makes four calls of Python
    inner, outer = hashlib.new(algorithm), hashlib.new(algorithm)
    block = key if len(key) <= inner.block_size else hashlib.new(algorithm, key).digest()
    block = block.ljust(inner.block_size, b"\0")
    inner.update(bytes([byte ^ 0x36 for byte in block]))
    outer.update(bytes([byte ^ 0x5C for byte in block]))

    def mac(message: bytes) -> bytes:
        first, second = inner.copy(), outer.copy()
        first.update(message)
        second.update(first.digest())
        return second.digest()

    return mac


def make_digest(secret: Secret, algorithm: Algorithm, encoding: str, *, message: bytes) -> bytes | None:
    """The signature of a message by our own secret; None where only the sender holds the key."""
    if algorithm in _ASYMMETRIC:
        return None
    key = decode_key(secret, encoding)
    if algorithm == "plain-sha256":
        return hashlib.sha256(key + message).digest()
    return hmac.digest(key, message, algorithm)


def _digest_matcher(macs: Sequence[Callable[[bytes], bytes]]) -> Match:
    def match(message: bytes, candidates: Sequence[bytes]) -> bool:
        expected = [mac(message) for mac in macs]
        return sum([hmac.compare_digest(each, candidate) for each in expected for candidate in candidates]) > 0

    def match_one(message: bytes, candidates: Sequence[bytes]) -> bool:
        if len(candidates) == 1:
            return hmac.compare_digest(only(message), candidates[0])
        return match(message, candidates)

    only = macs[0]
    return match_one if len(macs) == 1 else match


def _signature_matcher(keys: Sequence[Any], algorithm: Algorithm) -> Match:
    more: tuple[Any, ...] = ()
    if algorithm == "ecdsa-p256":
        more = (ec.ECDSA(hashes.SHA256()),)
    elif algorithm == "rsa-sha256":
        more = (padding.PKCS1v15(), hashes.SHA256())

    def made(key: Any, message: bytes, candidate: bytes) -> bool:
        try:
            key.verify(candidate, message, *more)
        except exceptions.InvalidSignature:
            return False
        return True

    def match(message: bytes, candidates: Sequence[bytes]) -> bool:
        return any(made(key, message, candidate) for key in keys for candidate in candidates)

    return match


def _public_key(text: str, algorithm: Algorithm) -> Any:
    """A public key as providers write them: PEM (also of a certificate), base64 of its DER, bare bytes of Ed25519."""
    text = text.strip()
    if not text:
        raise ValueError("a secret is empty; give the sender's public key")
    try:
        key = _parse_public_key(text, algorithm)
    except (ValueError, exceptions.UnsupportedAlgorithm):
        bare = ", or its 32 bytes in hex or base64" if algorithm == "ed25519" else ""
        raise ValueError(
            f"not a public key for {algorithm}; give it as PEM, or as the base64 of its DER{bare}"
        ) from None
    if not _is_of_kind(key, algorithm):
        raise ValueError(f"a public key is of another kind than {algorithm}")
    if algorithm == "ed25519":
        check_point(key.public_bytes_raw())
    return key


def _is_of_kind(key: Any, algorithm: Algorithm) -> bool:
    if algorithm == "ecdsa-p256":
        return isinstance(key, ec.EllipticCurvePublicKey) and isinstance(key.curve, ec.SECP256R1)
    return isinstance(key, rsa.RSAPublicKey if algorithm == "rsa-sha256" else ed25519.Ed25519PublicKey)


def _parse_public_key(text: str, algorithm: Algorithm) -> Any:
    if text.startswith("-----BEGIN CERTIFICATE"):
        return x509.load_pem_x509_certificate(text.encode()).public_key()
    if text.startswith("-----BEGIN"):
        return serialization.load_pem_public_key(text.encode())
    if algorithm == "ed25519":
        raw = bytes.fromhex(text) if len(text) == 64 else _base64(text.removeprefix(PUBLIC_PREFIX))
        if len(raw) == 32:
            return ed25519.Ed25519PublicKey.from_public_bytes(raw)
    return serialization.load_der_public_key(_base64(text))


def _base64(text: str) -> bytes:
    """A key may be pasted in several lines."""
    return binascii.a2b_base64("".join(text.split()), strict_mode=True)
