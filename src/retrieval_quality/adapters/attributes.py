"""Attributes and ids of OpenTelemetry spans in any of their JSON encodings."""

import base64
import binascii
import re
from collections.abc import Mapping
from typing import Final

from retrieval_quality.adapters.rows import mapping_of, text_of

_HEX: Final = re.compile(r"(0x)?([0-9a-fA-F]{16}|[0-9a-fA-F]{32})")
_ID_BYTES: Final = (8, 16)
# values that stay whole when nested attributes are made flat
_WHOLE: Final = ("metadata", "gen_ai.retrieval.documents", "mlflow.spanInputs", "mlflow.spanOutputs")
_MAX_DEPTH: Final = 50
_MAX_DIGITS: Final = 25


def otel_id(value: object) -> str | None:
    """Lower-case hex of a hex id (with or without 0x) or of a base64 id; other ids as they are.

    An id of zeros is none.
    """
    text = text_of(value)
    if text is None:
        return None
    if match := _HEX.fullmatch(text):
        return match[2].lower() if match[2].strip("0") else None
    try:
        raw = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return text
    if len(raw) not in _ID_BYTES or not text.endswith("="):
        return text
    return raw.hex() if any(raw) else None


def flat_attributes(attributes: Mapping[str, object]) -> dict[str, object]:
    """Nested attributes under keys joined by dots; list positions are keys too."""
    flat: dict[str, object] = {}
    for key, value in attributes.items():
        _flatten(key, value, flat)
    return flat


def indexed(attributes: Mapping[str, object], prefix: str, inner: str = "") -> list[dict[str, object]]:
    """The list under `prefix.N.`: its members' values by what follows `inner` (such as `document.`).

    In the order of N; gaps close.
    """
    members: dict[int, dict[str, object]] = {}
    for key, value in attributes.items():
        if key.startswith(prefix + "."):
            position, _, rest = key[len(prefix) + 1 :].partition(".")
            if position.isdecimal() and rest:
                members.setdefault(int(position), {})[rest.removeprefix(inner)] = value
    return [members[position] for position in sorted(members)]


def below(attributes: Mapping[str, object], key: str) -> dict[str, object]:
    """The mapping under `key`: as such, as JSON text, or with one attribute per member."""
    members = {name[len(key) + 1 :]: value for name, value in attributes.items() if name.startswith(f"{key}.")}
    return {**mapping_of(attributes.get(key)), **members}


def _flatten(key: str, value: object, flat: dict[str, object], depth: int = 0) -> None:
    is_whole = key.endswith(_WHOLE) or depth > _MAX_DEPTH
    if isinstance(value, dict) and value and not is_whole:
        for inner_key, inner in value.items():
            _flatten(f"{key}.{inner_key}", inner, flat, depth + 1)
    elif isinstance(value, list) and value and isinstance(value[0], dict) and not is_whole:
        for position, inner in enumerate(value):
            _flatten(f"{key}.{position}", inner, flat, depth + 1)
    else:
        flat[key] = value


def attributes_of(attributes: object) -> dict[str, object]:
    """Attributes of a span or resource in any encoding, flat: keys joined by dots."""
    if isinstance(attributes, list):  # OTLP: [{key, value: {stringValue: ...}}]
        pairs = [pair for pair in attributes if isinstance(pair, Mapping)]
        return flat_attributes({str(pair.get("key")): any_value(pair.get("value")) for pair in pairs})
    return flat_attributes(mapping_of(attributes))


def any_value(value: object, depth: int = 0) -> object:
    """The plain value of an OTLP AnyValue; 64-bit integers come as text. None below 50 levels."""
    if not isinstance(value, Mapping):
        return value
    if depth > _MAX_DEPTH:
        return None
    listed = one_of(value.get("arrayValue"), value.get("array_value"))
    if listed is not None:
        inner = mapping_of(listed).get("values")
        return [any_value(element, depth + 1) for element in inner] if isinstance(inner, list) else []
    mapped = one_of(value.get("kvlistValue"), value.get("kvlist_value"))
    if mapped is not None:
        inner = mapping_of(mapped).get("values")
        pairs = [pair for pair in inner if isinstance(pair, Mapping)] if isinstance(inner, list) else []
        return {str(pair.get("key")): any_value(pair.get("value"), depth + 1) for pair in pairs}
    whole = one_of(value.get("intValue"), value.get("int_value"))
    if whole is not None:
        text = str(whole)
        return int(text) if len(text) < _MAX_DIGITS and text.removeprefix("-").isdecimal() else text
    # protocol buffers that write every field have the others as null
    return next((plain for plain in value.values() if plain is not None), None)


def one_of(*values: object) -> object:
    """The first value that is neither None nor an empty text."""
    return next((value for value in values if value is not None and value != ""), None)
