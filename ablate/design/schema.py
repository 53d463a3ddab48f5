"""A JSON Schema of grid files, for editors that complete keys, explain them and underline mistakes as one types.

It follows from the models and words of ``grid_file``. What depends on two places at once (an arm's name, a level of a
factor) no schema can say; ``ablate plan`` checks that.
"""

from __future__ import annotations

import re
from typing import Any

from ablate.design.condition import ARM
from ablate.design.grid_file import ALLOWED, ALLOWED_KEY, FACTOR_KEYWORDS, FACTOR_NAME, GridFile, look_up
from ablate.design.meanings import MEANINGS
from ablate.design.yaml_source import Loc

DRAFT = "https://json-schema.org/draft/2020-12/schema"

Schema = dict[str, Any]


def grid_schema() -> Schema:
    """Return the schema, as plain JSON data."""
    models = GridFile.model_json_schema()
    schema = _inlined(models, models.get("$defs", {}))
    del schema["$defs"]
    _describe(schema, ())
    properties = schema["properties"]
    properties["factors"] = {"$ref": "#/$defs/factors", "description": _words(("factors",))}
    contrast = properties["contrasts"]["items"]
    contrast["oneOf"] = [{"required": ["arms"]}, {"required": ["factor", "levels"]}]
    properties["arms"]["additionalProperties"] = False
    for arm in properties["arms"]["patternProperties"].values():
        arm["dependentRequired"] = {"perturb": ["repeat"]}
    return {
        "$schema": DRAFT,
        "title": "A grid file of ablate",
        "description": "A study: arms, crossed with the levels of factors, over the same blocks.",
        **schema,
        "$defs": _factor_definitions(),
    }


def _inlined(schema: Any, models: Schema) -> Any:
    """Return a schema with its references written out, pydantic's titles gone and regular expressions in JSON's way."""
    if isinstance(schema, list):
        return [_inlined(one, models) for one in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        return _inlined(models[schema["$ref"].rpartition("/")[2]], models)
    alternatives = schema.get("anyOf", ())
    if {"type": "null"} in alternatives and schema.get("default", schema) is not None:
        schema = {**schema, "anyOf": [one for one in alternatives if one != {"type": "null"}]}
    if len(schema.get("anyOf", ())) == 1:
        schema = {**{key: value for key, value in schema.items() if key != "anyOf"}, **schema["anyOf"][0]}
        return _inlined(schema, models)
    found: Schema = {}
    for key, value in schema.items():
        if key == "pattern":
            found[key] = _pattern(value)
        elif key == "patternProperties":
            found[key] = {_pattern(name): _inlined(one, models) for name, one in value.items()}
            found["additionalProperties"] = False
        elif key == "properties":
            found[key] = {name: _inlined(one, models) for name, one in value.items()}
        elif not (key == "title" or (key == "default" and value is None)):
            found[key] = _inlined(value, models)
    return found


def _pattern(text: str) -> str:
    return re.sub(r"\\z$", "$", re.sub(r"^\\A", "^", text))


def _describe(schema: Schema, loc: Loc) -> None:
    """Say at every key what it means and what may stand there."""
    schema.pop("description", None)
    if words := _words(loc):
        schema["description"] = words
    for key, inner in schema.get("properties", {}).items():
        _describe(inner, (*loc, key))
    for inner in schema.get("patternProperties", {}).values():
        _describe(inner, (*loc, "*"))
    for inner in schema.get("anyOf", ()):
        if "properties" in inner:
            _describe(inner, loc)
    for key in ("additionalProperties", "items"):
        if isinstance(schema.get(key), dict):
            _describe(schema[key], (*loc, "*"))


def _words(loc: Loc) -> str:
    found = look_up(ALLOWED, loc)
    allowed = found[1] if found is not None and found[0] == loc else ""
    meaning = MEANINGS.get(loc, "")
    return f"{meaning} Allowed: {allowed}." if meaning and allowed else meaning or allowed


def _factor_definitions() -> Schema:
    """Return the definitions for ``factors``, which contains itself: every member of a union is written like it."""
    level: Schema = {"type": ["boolean", "number", "string"]}
    levels: Schema = {"type": "array", "minItems": 1, "uniqueItems": True, "items": level}
    name = {"pattern": f"^{FACTOR_NAME}$", "not": {"enum": [ARM]}, "description": ALLOWED_KEY["factors",]}
    pattern: Schema = {
        "type": "object",
        "minProperties": 1,
        "propertyNames": {"pattern": f"^{FACTOR_NAME}$", "not": {"enum": [*FACTOR_KEYWORDS]}},
        "additionalProperties": {"anyOf": [level, {"type": "array", "minItems": 1, "items": level}]},
    }
    conditional: Schema = {
        "type": "object",
        "required": ["levels", "when"],
        "additionalProperties": False,
        "properties": {
            "levels": {**levels, "description": _words(("factors", "*", "levels"))},
            "when": {**pattern, "description": _words(("factors", "*", "when"))},
        },
    }
    zipped: Schema = {
        "type": "object",
        "minProperties": 2,
        "propertyNames": {**name, "not": {"enum": [ARM, *FACTOR_KEYWORDS]}},
        "additionalProperties": {"type": "array", "minItems": 1, "items": level},
    }
    return {
        "factors": {
            "type": "object",
            "propertyNames": name,
            "properties": {
                "zip": {
                    "anyOf": [zipped, {"type": "array", "minItems": 1, "items": zipped}],
                    "description": _words(("factors", "zip")),
                },
                "union": {
                    "type": "array",
                    "minItems": 1,
                    "items": {"$ref": "#/$defs/factors"},
                    "description": _words(("factors", "union")),
                },
                "exclude": {
                    "type": "array",
                    "minItems": 1,
                    "items": {**pattern, "description": _words(("factors", "exclude", "*"))},
                    "description": _words(("factors", "exclude")),
                },
            },
            "additionalProperties": {"anyOf": [levels, conditional], "description": _words(("factors", "*"))},
        }
    }
