"""Declarative verification: schemes, the verifiers that are made of them, and answers to handshakes."""

from __future__ import annotations

from gateway.schemes.bodies import BodyFields, as_label, looks_like_form, read_form
from gateway.schemes.check import Check
from gateway.schemes.handshakes import echo, json_answer, plain, proof
from gateway.schemes.keys import decode_digest, decode_key, matcher
from gateway.schemes.multipart import read_multipart
from gateway.schemes.reading import event_name, optional_label, query_value, seconds
from gateway.schemes.scheme import Scheme, changed, with_tolerance
from gateway.schemes.token import (
    LabelConfig,
    TokenScheme,
    TokenVerifier,
    is_known,
    token_delivery,
    token_digests,
    with_token,
)
from gateway.schemes.verifier import SchemeVerifier, SecretsConfig, TimedConfig, TimedUrlConfig, UrlConfig

__all__ = [
    "BodyFields",
    "Check",
    "LabelConfig",
    "Scheme",
    "SchemeVerifier",
    "SecretsConfig",
    "TimedConfig",
    "TimedUrlConfig",
    "TokenScheme",
    "TokenVerifier",
    "UrlConfig",
    "as_label",
    "changed",
    "decode_digest",
    "decode_key",
    "echo",
    "event_name",
    "is_known",
    "json_answer",
    "looks_like_form",
    "matcher",
    "optional_label",
    "plain",
    "proof",
    "query_value",
    "read_form",
    "read_multipart",
    "seconds",
    "token_delivery",
    "token_digests",
    "with_token",
    "with_tolerance",
]
