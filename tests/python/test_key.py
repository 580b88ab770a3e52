"""The Python key against the vectors that the C++ test reads too. Nothing here writes them."""

import json

import pytest

from kiln.key import Parameter, canonical_encoding, compile_key
from places import ROOT

_VECTORS = json.loads((ROOT / "tests" / "vectors" / "compile_key.json").read_text("utf-8"))
_FINGERPRINT = bytes(range(32))
_ITSELF = []
_ITSELF.append(_ITSELF)


def _request(case):
    request = case["request"]
    source = request["source"]
    return dict(
        kind=source["kind"],
        source=bytes.fromhex(source["text_hex"]) if "text_hex" in source else source["text"],
        **request["target"],
        parameters=[
            Parameter(p["name"], p["type"], p.get("attributes", {}), p.get("constant"))
            for p in request["parameters"]
        ],
        launch=request["launch"],
        options=request["options"],
        toolchain_fingerprint=bytes.fromhex(request["toolchain_fingerprint"]),
        ptxas=request.get("ptxas", ""),
        headers=request.get("headers"),
    )


def _key(**changes):
    request = dict(kind="ttir", source="x", backend="cuda", architecture="90", warp_size=32,
                   toolchain_fingerprint=_FINGERPRINT)
    return compile_key(**{**request, **changes})


@pytest.mark.parametrize("case", _VECTORS["cases"], ids=lambda case: case["name"])
def test_vector(case):
    assert compile_key(**_request(case)) == case["key"]
    if "encoding" in case:
        assert canonical_encoding(**_request(case)).hex() == case["encoding"]


def test_no_two_vectors_share_a_key():
    keys = [case["key"] for case in _VECTORS["cases"]]
    assert len(keys) >= 25
    assert len(set(keys)) == len(keys)


@pytest.mark.parametrize("ptxas", ["13.0.88", "ab" * 31, "AB" * 32, "ab" * 32 + "\n"])
def test_a_ptxas_is_a_digest(ptxas):
    with pytest.raises(ValueError):
        _key(ptxas=ptxas)


def test_text_and_its_bytes_are_the_same_source():
    assert _key(source="größe") == _key(source="größe".encode())


def test_the_order_of_insertion_does_not_matter():
    assert _key(options={"a": 1, "b": 2}) == _key(options={"b": 2, "a": 1})


def test_the_option_none_is_absent():
    assert _key(options={"maxfoo": None}, launch={"maxnreg": None}) == _key()


def test_a_list_is_a_tuple():
    assert _key(options={"o": [1, (2,)]}) == _key(options={"o": (1, [2])})


@pytest.mark.parametrize("value", [2**63, -2**63 - 1, float("nan"), float("inf")])
def test_numbers_without_an_encoding_are_refused(value):
    with pytest.raises(ValueError):
        _key(options={"o": value})


def test_values_of_other_types_are_refused():
    with pytest.raises(TypeError):
        _key(options={"o": {"a": 1}})
    with pytest.raises(TypeError):
        _key(warp_size=True)


def test_launch_parameters_have_their_place():
    with pytest.raises(ValueError):
        _key(options={"num_warps": 4})
    with pytest.raises(ValueError):
        _key(launch={"enable_fp_fusion": True})


@pytest.mark.parametrize("field,value", [
    *((field, value) for field in ("kind", "source", "backend", "architecture") for value in (90, None, "a\ud800b")),
    *(("warp_size", value) for value in ("32", None, 1.5, True, 2**63)),
    *(("toolchain_fingerprint", value) for value in ("0" * 32, "0" * 64, 32, None, b"")),
    *(("parameters", value) for value in (5, ["x"], [Parameter(5, "i32")], [Parameter("x", "i32", {"a": 2**63})],
                                          [Parameter("x", "i32", {5: 1})], [Parameter("x", "i32", {}, float("nan"))])),
    *((field, value) for field in ("launch", "options", "headers") for value in (5, ["num_warps"])),
    *(("launch", {"num_warps": value}) for value in (2**63, float("nan"), "\ud800", b"4")),
    *(("options", value) for value in ({"o": "\ud800"}, {"\ud800": 1}, {5: 1}, {"o": b""}, {"o": _ITSELF})),
    *(("headers", value) for value in ({"a.h": 5}, {"a.h": None}, {5: ""}, {"a.h": "\ud800"})),
    *(("ptxas", value) for value in (5, None, b"ab" * 32)),
], ids=ascii)
def test_the_argument_that_has_no_encoding_is_named(field, value):
    with pytest.raises((TypeError, ValueError), match=rf"\b{field}\b|a {field} ") as caught:
        _key(**{field: value})
    assert not isinstance(caught.value, UnicodeError)


def test_a_short_fingerprint_is_refused():
    with pytest.raises(ValueError):
        _key(toolchain_fingerprint=b"short")
