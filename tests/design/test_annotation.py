from __future__ import annotations

import pytest

from ablate.design.annotation import allowed_words


@pytest.mark.parametrize(
    ("annotation", "fitting", "unfitting", "words"),
    [
        ("int", [0, -3], [1.0, True, "1", None, []], "a whole number"),
        ("float", [0.5, 1], [True, "1.0", None], "a number"),
        ("str", ["", "x"], [1, True, None], "text"),
        ("bool", [True, False], [0, 1, "true", None], "true or false"),
        ("None", [None], [0], "null"),
        ("int | None", [1, None], [1.5], "a whole number or null"),
        ("Optional[float]", [1, 1.5, None], ["x"], "a number or null"),
        ("typing.Union[int, str, bool]", [1, "x", True], [1.5, None], "a whole number, text or true or false"),
        ("'int'", [1], [1.5], "a whole number"),
        ('Literal["copied", "reused"]', ["copied"], ["x", 1], "copied or reused"),
        ("typing.Literal[1, 2, True, None]", [1, 2, True, None], [1.0, 3, False], "1, 2, true or null"),
        ("Literal[-1]", [-1], [1], "-1"),
        ("Literal['a'] | int", ["a", 3], ["b"], "a or a whole number"),
    ],
)
def test_simple_annotations(annotation, fitting, unfitting, words):
    for value in fitting:
        assert allowed_words(annotation, value) is None
    for value in unfitting:
        judged = allowed_words(annotation, value)
        assert judged is not None
        assert judged[0] == words


@pytest.mark.parametrize(
    "annotation",
    ["", "tuple[int, ...]", "list", "Any", "np.ndarray", "int | Path", "Literal[Color.RED]", "Optional[Path]", "a b"],
)
def test_other_annotations_judge_nothing(annotation):
    assert allowed_words(annotation, object()) is None


def test_the_texts_that_may_be_meant():
    judged = allowed_words('Literal["copied", 1, "reused"]', "copid")
    assert judged is not None
    assert judged[1] == ("copied", "reused")
