"""What a signature covers: all of a verdict's meaning, and none of how its JSON happens to be written."""

import copy
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.signature import NotCanonicalError, Signer, is_genuine, key_id, read_json, signed_text

# RFC 8032, section 7.1, test 2.
SECRET = "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb"
PUBLIC = "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c"
SIGNATURE = (
    "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da"
    "085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00"
)

NUMBERS = st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False)
LEAVES = st.none() | st.booleans() | NUMBERS | st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
JSON = st.recursive(LEAVES, lambda part: st.lists(part, max_size=3) | st.dictionaries(NAMES, part, max_size=3))
VERDICTS = st.dictionaries(NAMES, JSON, max_size=4)


def test_keys_and_signatures_are_those_of_the_standard():
    signer = Signer(SECRET)
    assert signer.public_key == PUBLIC
    assert signer.sign(b"\x72") == SIGNATURE
    assert signer.key_id == key_id(PUBLIC)
    assert is_genuine(b"\x72", SIGNATURE, PUBLIC)
    assert SECRET not in repr(vars(signer))


@pytest.mark.parametrize("secret", ["", "0" * 63, "0" * 65, "G" * 64, SECRET.upper(), SECRET + "\n"])
def test_what_is_no_key_is_refused_without_being_shown(secret):
    with pytest.raises(ValueError, match="64 hexadecimal digits") as caught:
        Signer(secret)
    assert not secret or secret not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "signature", "public"),
    [
        (b"\x73", SIGNATURE, PUBLIC),
        (b"\x72", "0" * 128, PUBLIC),
        (b"\x72", "no signature", PUBLIC),
        (b"\x72", SIGNATURE, "0" * 62),
        (b"\x72", SIGNATURE, Signer("1" * 64).public_key),
        (b"\x72", SIGNATURE[:-2], PUBLIC),
    ],
)
def test_nothing_else_is_genuine(text, signature, public):
    assert not is_genuine(text, signature, public)


def test_the_text_is_that_of_rfc_8785():
    # RFC 8785, section 3.2.2, under the member `m`.
    given_text = (
        r'{"m": {"numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001], '
        r'"string": "\u20ac$\u000F\u000aA'
        r"'"
        r'\u0042\u0022\u005c\\\"\/", "literals": [null, true, false]}}'
    )
    expected = (
        '{"m":{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],'
        '"string":"€$\\u000f\\nA\'B\\"\\\\\\\\\\"/"}}'
    )
    assert signed_text(read_json(given_text.encode())) == b"assay-verdict-1\n" + expected.encode()


def test_the_signature_itself_is_not_signed_and_everything_else_of_the_receipt_is():
    bare = {"receipt": {"seed": "00"}, "status": "passed"}
    signed = {"receipt": {"seed": "00", "signature": {"value": "ab"}}, "status": "passed"}
    assert signed_text(bare) == signed_text(signed)
    assert signed_text({"receipt": {"seed": "01"}, "status": "passed"}) != signed_text(bare)
    assert signed_text({"receipt": {"seed": "00"}, "status": "passed", "signature": {"value": "ab"}}) != signed_text(
        bare
    )


@given(VERDICTS)
def test_how_it_is_written_makes_no_difference(verdict):
    text = signed_text(verdict)
    turned = dict(reversed(verdict.items()))
    assert signed_text(turned) == text
    assert signed_text(read_json(json.dumps(verdict, indent=3).encode())) == text
    assert signed_text({**verdict, "a member of a later contract": None}) == text


def leaves(value, path=()):
    """The paths of all values that are no containers."""
    if isinstance(value, dict | list):
        for name in value if isinstance(value, dict) else range(len(value)):
            yield from leaves(value[name], (*path, name))
    else:
        yield path


@given(VERDICTS.filter(lambda one: list(leaves(one))), LEAVES, st.data())
def test_what_it_says_makes_a_difference(verdict, other, data):
    path = data.draw(st.sampled_from(list(leaves(verdict))))
    changed = copy.deepcopy(verdict)
    place = changed
    for name in path[:-1]:
        place = place[name]
    before = place[path[-1]]
    place[path[-1]] = other
    # A number is one number, whether it is written 2 or 2.0; beyond 2^53 an integer is its digits.
    assert (signed_text(changed) == signed_text(verdict)) is (meaning(before) == meaning(other))


def meaning(value):
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value) if isinstance(value, int) and abs(value) >= 2**53 else float(value)
    return (type(value), value) if not isinstance(value, str) else value


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b'{"status": "passed", "status": "incorrect"}', "'status' is there twice"),
        (b'{"a": {"b": 1, "b": 1}}', "'b' is there twice"),
        (b'{"a": NaN}', "NaN is no number"),
        (b'{"a": -Infinity}', "-Infinity is no number"),
        (b'{"a": 1e999}', "1e999 is beyond every float"),
        (b"{", "not JSON"),
        (b"\xff", "not JSON"),
        (b'{"a": ' + b"1" * 5000 + b"}", "not JSON"),
        (b"[" * 100_000, "not JSON"),
    ],
    ids=range(9),
)
def test_json_with_two_meanings_is_refused(text, why):
    with pytest.raises(NotCanonicalError, match=why):
        read_json(text)


def test_half_a_character_cannot_be_signed():
    with pytest.raises(NotCanonicalError):
        signed_text(read_json(b'{"a": "\\ud800"}'))
