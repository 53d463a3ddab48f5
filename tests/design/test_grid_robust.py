"""Whatever stands in a grid file, the answer is a study or a message: never a traceback, never an unplaced problem."""

from __future__ import annotations

import copy
import json

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ablate.design.cross import trials
from ablate.design.extend import differences
from ablate.design.grid import GridSpec, load_grid
from ablate.design.plan import plan
from ablate.errors import BadInput

GRID = {
    "study": "s",
    "question": "q",
    "trainable": "m:T",
    "settings": {"lr": 0.1, "net": {"layers": [1, 2]}},
    "factors": {
        "f": [1, 2.5],
        "g": ["x", "y"],
        "zip": {"w": [1, 2], "v": ["p", "q"]},
        "union": [{"o": ["s"], "m": [1, 2]}, {"o": ["t"], "exclude": [{"arm": "b"}]}],
        "h": {"levels": [True, False], "when": {"o": "s", "w": [1, 2]}},
        "exclude": [{"m": 1, "h": True, "arm": "a"}],
    },
    "arms": {
        "a": {"env": {"X": "1"}, "threads": 2, "settings": {"k": 1}, "resources": {"CPU": 1, "r": 0.5}},
        "b": {"precision": "float64", "onednn": False, "deterministic": True},
        "c": {"repeat": "a", "perturb": "one-ulp", "blocks": 2},
    },
    "blocks": [0, 1, 5],
    "batches": 10,
    "outcome": {"metric": "loss", "last": 5},
    "contrasts": [{"arms": ["a", "b"], "where": {"f": 1}}, {"factor": "g", "levels": ["x", "y"]}],
    "margin": "2%",
    "guard": {"first": 1, "every": 2},
}


def places(value, path=()):
    """Every key path of nested data."""
    yield path
    if isinstance(value, dict | list):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from places(inner, (*path, key))


PLACES = [path for path in places(GRID) if path]
scalars = st.none() | st.booleans() | st.integers(-2, 12) | st.sampled_from([0.5, "", "a", "f", "x", "blocks", "é"])
values = scalars | st.lists(scalars, max_size=3) | st.dictionaries(st.sampled_from(["a", "arms", "[key]", ""]), scalars)
edits = st.lists(st.tuples(st.sampled_from(PLACES), st.sampled_from(["set", "drop", "rename"]), values), max_size=4)


def edited(changes):
    data = copy.deepcopy(GRID)
    for path, what, value in changes:
        parent = data
        try:
            for part in path[:-1]:
                parent = parent[part]
            if what == "set":
                parent[path[-1]] = value
            else:
                removed = parent.pop(path[-1])
                if what == "rename" and isinstance(parent, dict):
                    parent[f"{path[-1]}x"] = removed
        except (KeyError, IndexError, TypeError, AttributeError):
            continue  # an earlier change removed this place
    return data


def outcome(path):
    try:
        return load_grid(path), ()
    except BadInput as error:
        return None, error.problems


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(edits)
def test_a_study_or_a_message(tmp_path, changes):
    path = tmp_path / "grid.yaml"
    path.write_text(json.dumps(edited(changes)), encoding="utf-8")  # JSON is YAML
    grid, problems = outcome(path)
    if grid is None:
        assert problems
        assert all(problem.where.startswith(f"{path}:1") and problem.found for problem in problems)
        assert len({str(problem) for problem in problems}) == len(problems)
        return
    assert GridSpec.model_validate_json(grid.model_dump_json()) == grid
    assert len({trial.trial_id for trial in trials(grid)}) == len(trials(grid))
    assert differences(grid, grid) == []
    plan(grid, cores=64)


def test_the_grid_that_is_edited_is_right(tmp_path):
    path = tmp_path / "grid.yaml"
    path.write_text(json.dumps(GRID), encoding="utf-8")
    assert len(load_grid(path).contrasts) == 2
