"""The JSON Schema of grid files agrees with the reader on right grids and on typical mistakes."""

from __future__ import annotations

import json
import re
from importlib import resources
from pathlib import Path

import jsonschema
import pytest
import yaml
from hypothesis import HealthCheck, given, settings

from ablate.design.schema import grid_schema
from tests.design.test_factors import EXAMPLE, HEAD, NAMES, outcome, sub_grids
from tests.design.test_grid import FULL

ROOT = Path(__file__).parents[2]
SCHEMA = grid_schema()
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)
README_GRIDS = re.findall(r"```yaml\n(study:.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
GRIDS = {path.name: path.read_text(encoding="utf-8") for path in sorted((ROOT / "configs").glob("*.yaml"))}
GRIDS |= {f"README {n}": text for n, text in enumerate(README_GRIDS)}
GRIDS["starter"] = (resources.files("ablate.starter") / "grid.yaml").read_text(encoding="utf-8")


def errors(data):
    return [error.message for error in VALIDATOR.iter_errors(data)]


def test_it_is_a_schema_of_its_draft():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    assert SCHEMA["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert json.loads(json.dumps(SCHEMA)) == SCHEMA


@pytest.mark.parametrize("name", GRIDS)
def test_every_shipped_grid_fits(name):
    assert errors(yaml.safe_load(GRIDS[name])) == []


def test_there_is_a_grid_in_the_readme():
    assert README_GRIDS


@pytest.mark.parametrize("text", [EXAMPLE, FULL])
def test_every_key_fits(minimal, text):
    assert errors(yaml.safe_load(minimal + text)) == []


def undescribed(schema, path=""):
    """Key paths that an editor could explain and does not."""
    for key, inner in {**schema.get("properties", {}), **schema.get("patternProperties", {})}.items():
        if "description" not in inner:
            yield f"{path}.{key}"
        yield from undescribed(inner, f"{path}.{key}")
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            yield from undescribed(schema[key], f"{path}.*")


def test_every_key_is_described():
    assert list(undescribed(SCHEMA)) == []
    assert list(undescribed(SCHEMA["$defs"]["factors"])) == []
    threads = SCHEMA["properties"]["arms"]["patternProperties"]["^[a-z][a-z0-9_-]*$"]["properties"]["threads"]
    assert threads == {
        "description": "Threads of one trial. Allowed: a whole number from 1.",
        "default": 1,
        "minimum": 1,
        "maximum": 2**63 - 1,
        "type": "integer",
    }


@pytest.mark.parametrize(
    "text",
    [
        "setings: {}",
        "study: My-Study",
        "trainable: my_model.py",
        "batches: many",
        "blocks: [a]",
        "blocks: 0",
        "arms: {a: {treads: 2}}",
        "arms: {a: {threads: '2'}}",
        "arms: {a: {precision: fp16}}",
        "arms: {a: {memory_format: nhwc}}",
        "arms: {a: {gradient_noise: -1}}",
        "arms: {a: {workers: 0}}",
        "arms: {A: {}}",
        "arms: {a: {env: {X: 1}}}",
        "arms: {a: {}, b: {perturb: one-ulp}}",
        "arms: []",
        "outcome: {metrc: loss}",
        "outcome: {last: 0}",
        "margin: 2 percent",
        "margin: -1",
        "contrasts: [{arms: [a]}]",
        "contrasts: [{arm: [a, b]}]",
        "contrasts: [{factor: f}]",
        "contrasts: [null]",
        "guard: {first: -1}",
        "factors: {f: 1}",
        "factors: {f: []}",
        "factors: {f: [1, 1]}",
        "factors: {f: [null]}",
        "factors: {F: [1]}",
        "factors: {arm: [1]}",
        "factors: {f: {levels: [1]}}",
        "factors: {f: {level: [1], when: {g: 1}}}",
        "factors: {zip: {a: [1]}}",
        "factors: {union: {a: [1]}}",
        "factors: {union: [{F: [1]}]}",
        "factors: {exclude: {a: 1}}",
    ],
)
def test_a_typical_mistake_is_seen_by_both(minimal, complaints, text):
    key = text.partition(":")[0]
    head = "".join(line for line in minimal.splitlines(keepends=True) if not line.startswith(f"{key}:"))
    assert errors(yaml.safe_load(head + text))
    assert complaints(text, minimal=head)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(sub_grids(tuple(NAMES)))
def test_it_never_refuses_what_the_reader_takes(tmp_path, drawn):
    data = {**HEAD, "factors": drawn[0], "arms": {"a": {}, "b": {"threads": 2}}}
    path = tmp_path / "grid.yaml"
    path.write_text(json.dumps(data))
    grid, _ = outcome(path)
    assert grid is None or errors(data) == []
