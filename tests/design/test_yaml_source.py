# ruff: noqa: E501  (an expected message reads best in one piece)
from __future__ import annotations

import json

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from ablate.design.yaml_source import dotted, read_yaml
from ablate.errors import BadInput


@pytest.fixture
def read(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def read(content):
        data = content if isinstance(content, bytes) else content.encode()
        (tmp_path / "grid.yaml").write_bytes(data)
        return read_yaml("grid.yaml")

    return read


def refusal(call, *args):
    with pytest.raises(BadInput) as caught:
        call(*args)
    assert len(caught.value.problems) == 1
    return str(caught.value)


def test_data_and_lines(read):
    source = read("a: 1\nb:\n  c: [x, 2.5, true, null]\n  'd e': {f: \"on\"}\n")
    assert source.data == {"a": 1, "b": {"c": ["x", 2.5, True, None], "d e": {"f": "on"}}}
    assert source.problems == ()
    assert source.where(("b", "c", 2)) == "grid.yaml:3: b.c[2]"
    assert source.where(("b", "d e", "f")) == "grid.yaml:4: b.d e.f"


def test_a_missing_key_gets_the_line_of_its_parent(read):
    source = read("a: 1\nb:\n  c: 2\n")
    assert source.where(("b", "x", "y")) == "grid.yaml:2: b.x.y"
    assert source.where(("z",)) == "grid.yaml:1: z"


def test_dotted():
    assert dotted(("contrasts", 0, "arms", 1)) == "contrasts[0].arms[1]"
    assert dotted(()) == ""


TRAPS = [
    ("1e-3", '1e-3 is text in YAML 1.1, not a number\n    write 1.0e-3, or "1e-3" for the text', 0.001),
    ("1e5", '1e5 is text in YAML 1.1, not a number\n    write 1.0e+5, or "1e5" for the text', 1e5),
    ("1.5e3", '1.5e3 is text in YAML 1.1, not a number\n    write 1.5e+3, or "1.5e3" for the text', 1500.0),
    ("-.5", '-.5 is text in YAML 1.1, not a number\n    write -0.5, or "-.5" for the text', -0.5),
    ("08", '08 is text in YAML 1.1, not a number\n    write 8, or "08" for the text', 8),
    ("on", 'on is the boolean true in YAML 1.1\n    write true if you mean it, or "on" for the text', True),
    ("OFF", 'OFF is the boolean false in YAML 1.1\n    write false if you mean it, or "OFF" for the text', False),
    ("yes", 'yes is the boolean true in YAML 1.1\n    write true if you mean it, or "yes" for the text', True),
    ("No", 'No is the boolean false in YAML 1.1\n    write false if you mean it, or "No" for the text', False),
    ("010", '010 is octal in YAML 1.1, the number 8\n    write 10 for the number, or "010" for the text', 10),
    ("0o17", '0o17 is text in YAML 1.1\n    write 15, or "0o17" for the text', 15),
    ("1:30", '1:30 is a number in base 60 in YAML 1.1, 90\n    write "1:30" for the text, or 90', "1:30"),
    ("-1:30.5", '-1:30.5 is a number in base 60 in YAML 1.1, -90.5\n    write "-1:30.5" for the text, or -90.5', None),
    ("2026-01-31", '2026-01-31 is a date in YAML 1.1\n    write "2026-01-31" for the text', "2026-01-31"),
    (".inf", ".inf is not a finite number\n    write a number, or null for none", 1.0),
    (".NaN", ".NaN is not a finite number\n    write a number, or null for none", 1.0),
    ("nan", 'nan is not a finite number\n    write a number, or "nan" for the text', 1.0),
    ("1e999", '1e999 is not a finite number\n    write a number, or "1e999" for the text', 1.0),
    ("None", 'None is text in YAML\n    write null for none, or "None" for the text', None),
    ("!!bool maybe", "the tag !!bool is not understood\n    remove it", "maybe"),
    ("!local x", "the tag !local is not understood\n    remove it", "x"),
    ("!!python/object:os.system {}", None, None),
    ("9" * 5000, "a number too long to be read\n    write a shorter number, or quote it for the text", 0),
    ('"\\ud800"', "half of a character (a surrogate), which is no text\n    write the whole character", ""),
]


@pytest.mark.parametrize(("written", "message", "meant"), TRAPS, ids=[trap[0][:20] for trap in TRAPS])
@pytest.mark.parametrize("place", ["value", "item"])
def test_what_yaml_1_1_would_change_is_refused_and_explained(read, written, message, meant, place):
    source = read(f"a: 1\nb: {written}\n" if place == "value" else f"a: 1\nb:\n- {written}\n")
    loc = "b" if place == "value" else "b[0]"
    line = 2 if place == "value" else 3
    (problem,) = source.problems
    if message is not None:
        assert str(problem) == f"grid.yaml:{line}: {loc}: {message}"
    assert source.refused == {("b",) if place == "value" else ("b", 0)}
    if meant is not None:
        value = source.data["b"] if place == "value" else source.data["b"][0]
        assert value == meant
        assert type(value) is type(meant)


@pytest.mark.parametrize("written", ["1e-3", "on", "010", "1:30", "2026-01-31", ".inf", "None", "08", "~"])
def test_quoted_scalars_are_text(read, written):
    source = read(f"a: \"{written}\"\nb: '{written}'\n")
    assert source.data == {"a": written, "b": written}
    assert source.problems == ()


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("1.0e-3", 0.001),
        ("1_000", 1000),
        ("0x1F", 31),
        ("-3", -3),
        (".5", 0.5),
        ("True", True),
        ("~", None),
        ("2%", "2%"),
        ("n", "n"),
        ("1 000", "1 000"),
        ("v1e3", "v1e3"),
        ("e5", "e5"),
        ("infinite", "infinite"),
    ],
)
def test_plain_scalars_that_mean_what_they_look_like(read, written, value):
    source = read(f"a: {written}\n")
    assert source.problems == ()
    assert source.data["a"] == value
    assert type(source.data["a"]) is type(value)


plain = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()


@settings(max_examples=30, deadline=None)
@given(
    st.dictionaries(st.text(), st.recursive(plain, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))
)
def test_what_pyyaml_writes_is_read_back_unchanged(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("yaml") / "data.yaml"
    path.write_text(yaml.safe_dump(data or {"a": 1}), encoding="utf-8")
    source = read_yaml(path)
    # PyYAML writes text such as "08" or "1e5" without quotes; those, and only those, may be refused.
    if not source.problems:
        assert json.dumps(source.data, sort_keys=True) == json.dumps(data or {"a": 1}, sort_keys=True)
    else:
        assert "is text in YAML" in str(source.problems[0]) or "not a finite" in str(source.problems[0])


def test_a_duplicate_key_names_both_lines(read):
    source = read("arms:\n  fast: 1\n  slow: 2\n  fast: 3\n")
    (problem,) = source.problems
    assert str(problem) == (
        'grid.yaml:4: arms.fast: "fast" stands here and in line 2; YAML would silently drop the first\n'
        "    rename or remove one of them"
    )
    assert source.data == {"arms": {"fast": 1, "slow": 2}}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1: x\n", 'grid.yaml:1: 1: the key 1 is a number, not text\n    write "1"'),
        ("true: x\n", 'grid.yaml:1: true: the key true is a boolean, not text\n    write "true"'),
        ("off: x\n", 'grid.yaml:1: off: as a key, off is the boolean false in YAML 1.1\n    write "off"'),
        ("~: x\n", 'grid.yaml:1: ~: the key ~ is null, not text\n    write "~"'),
        ("[a, b]: x\n", "grid.yaml:1: a key here is a list or a mapping\n    keys are text"),
        ("a: &x {b: 1}\nc:\n  <<: *x\n", "grid.yaml:3: c.<<: `<<` merges are not understood\n    write the keys out"),
        ("a: &x [*x]\n", "grid.yaml:1: a[0]: an alias contains itself\n    write the value out"),
    ],
)
def test_odd_keys_and_aliases(read, text, message):
    assert [str(problem) for problem in read(text).problems] == [message]


def test_an_alias_is_its_anchors_value(read):
    assert read("a: &x [1, 2]\nb: *x\n").data == {"a": [1, 2], "b": [1, 2]}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "grid.yaml: the file is empty\n    `ablate init` writes one to start from"),
        ("# only a comment\n", "grid.yaml: the file is empty\n    `ablate init` writes one to start from"),
        ("- a\n", "grid.yaml:1: the top level is a list\n    allowed: a mapping of `key: value` lines"),
        ("\nstudy\n", "grid.yaml:2: the top level is a single value\n    allowed: a mapping of `key: value` lines"),
        (
            "a: 1\nb: [1, 2\nc: 3\n",
            "grid.yaml:3:2: not YAML: while parsing a flow sequence that begins in line 2: expected ',' or ']', but got "
            "':'\n    check indentation, quotes and colons there",
        ),
        (
            "a:\n\tb: 1\n",
            "grid.yaml:2:1: not YAML: while scanning for the next token: found character '\\t' that cannot start any "
            "token\n    indent with spaces, never with tabs",
        ),
        (
            "a: 1\n---\nb: 1\n",
            "grid.yaml:2:1: not YAML: expected a single document in the stream that begins in line 1: but found another "
            "document\n    check indentation, quotes and colons there",
        ),
        ("a: b: c\n", None),
        ("a: \x07\n", None),
        (b"a: \xff\n", "grid.yaml: not UTF-8 text: byte 3 is 0xff"),
        ("a: " + "[" * 5000 + "]" * 5000 + "\n", "grid.yaml: nested too deeply to be read"),
    ],
)
def test_a_file_that_is_no_grid(read, content, message):
    text = refusal(read, content)
    if message is not None:
        assert text == message
    else:
        assert text.startswith("grid.yaml:")
        assert "not YAML: " in text


def test_a_byte_order_mark_is_no_part_of_the_first_key(read):
    assert read("\ufeffa: 1\n").data == {"a": 1}


def test_missing_file_names_the_nearest(tmp_path):
    (tmp_path / "retracted_gap.yaml").write_text("a: 1")
    missing = tmp_path / "retracted_gp.yaml"
    expected = f"{missing}: no such file\n    did you mean '{tmp_path / 'retracted_gap.yaml'}'?"
    assert refusal(read_yaml, missing) == expected


def test_missing_file_lists_the_yaml_files_beside_it(tmp_path):
    (tmp_path / "smoke.yaml").write_text("a: 1")
    missing = tmp_path / "zzzzzz.yaml"
    assert refusal(read_yaml, missing) == f"{missing}: no such file\n    allowed: in {tmp_path}: smoke.yaml"


def test_missing_file_in_an_empty_folder(tmp_path):
    missing = tmp_path / "grid.yaml"
    advice = "`ablate init` writes a grid file to start from"
    assert refusal(read_yaml, missing) == f"{missing}: no such file\n    {advice}"


def test_missing_folder(tmp_path):
    missing = tmp_path / "no" / "grid.yaml"
    assert refusal(read_yaml, missing) == f"{missing}: no such file: the folder {tmp_path / 'no'} does not exist"


def test_a_folder_is_no_file(tmp_path):
    assert refusal(read_yaml, tmp_path) == (
        f"{tmp_path}: a folder, not a file\n    allowed: a grid file, such as grid.yaml"
    )


def test_a_file_is_no_folder(tmp_path):
    (tmp_path / "a").write_text("")
    path = tmp_path / "a" / "grid.yaml"
    assert refusal(read_yaml, path) == (
        f"{path}: no such file: a part of the path is a file, not a folder\n    allowed: a grid file, such as grid.yaml"
    )


def test_an_unreadable_file(tmp_path):
    path = tmp_path / "grid.yaml"
    path.symlink_to(path)
    assert refusal(read_yaml, path) == f"{path}: cannot be read: Too many levels of symbolic links"


def test_a_path_that_no_file_system_has():
    assert refusal(read_yaml, "a\0b") == "a\0b: cannot be read: embedded null byte"
