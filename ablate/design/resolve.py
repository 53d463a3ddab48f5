"""The trainable that a grid names, found and read as source: nothing is imported, so ``ablate plan`` needs no torch."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from ablate.design.annotation import allowed_words
from ablate.design.cross import cells
from ablate.design.definition import Signature, definitions, function_signature, init_signature
from ablate.design.module_file import find_module, module_names, source_text
from ablate.design.spec import GridSpec
from ablate.design.trial_spec import Scalar
from ablate.design.validation import describe
from ablate.design.yaml_source import Loc, dotted
from ablate.errors import BadInput, Problem, nearest


@dataclass(frozen=True)
class TrainableSource:
    """A trainable, as its source shows it.

    Attributes:
        file: the file that defines it.
        name: its name there.
        kind: ``structured`` for a class, ``function`` for ``train(config, ctx)``.
        settings: the settings it takes, with the text of each annotation (empty if it has none).
        open_ended: it may take settings beside those: ``**kwargs``, an ``__init__`` from another file, a function.
        line: where its definition begins, from 1.
        required: the settings without a default.
    """

    file: Path
    name: str
    kind: Literal["structured", "function"]
    settings: dict[str, str]
    open_ended: bool
    line: int
    required: frozenset[str] = field(default_factory=frozenset)


def find_trainable(path: str, search: Sequence[Path]) -> TrainableSource:
    """Find the trainable at an import path.

    Args:
        path: ``my_package.my_module:Thing``.
        search: folders that come before ``sys.path``, such as the grid file's.

    Raises:
        BadInput: the path is malformed, or the module or the name in it does not exist, or cannot be read.
    """
    module, _, name = path.partition(":")
    if not name.isidentifier() or not all(part.isidentifier() for part in module.split(".")):
        allowed = "an import path, such as my_package.my_module:Thing"
        raise BadInput(Problem("trainable", f'found "{path}"', allowed))
    return _find(module, name, search, path, depth=0)


def _find(module: str, name: str, search: Sequence[Path], path: str, depth: int) -> TrainableSource:
    where = f"trainable {path}"
    file = find_module(module, search)
    if file is None:
        folders = ", ".join(dict.fromkeys(str(folder) for folder in search))
        advice = f"searched: {folders + ', ' if folders else ''}and everything that is installed"
        raise BadInput(
            Problem(
                where,
                f"there is no module {module}",
                nearest=nearest(module, module_names(module, search)),
                advice=advice,
            )
        )
    tree = _parse(file, where)
    defined = definitions(tree)
    node = defined.get(name)
    match node:
        case ast.ClassDef():
            return _source(file, node, "structured", init_signature(node, defined))
        case ast.FunctionDef():
            signature = function_signature(node)
            if not signature.takes_config_and_context:
                found = f"{name} is a function that cannot be called as {name}(config, ctx)"
                raise BadInput(Problem(f"{file}:{node.lineno}", found, "def train(config, ctx)"))
            return _source(file, node, "function", signature)
        case ast.AsyncFunctionDef():
            raise BadInput(Problem(f"{file}:{node.lineno}", f"{name} is async", "a class or a plain function"))
        case ast.ImportFrom() if depth < 8:
            package = module if file.name == "__init__.py" else module.rpartition(".")[0]
            target = _target(node, package)
            original = next(alias.name for alias in node.names if (alias.asname or alias.name) == name)
            return _find(target, original, search, path, depth + 1)
        case None:
            things = [key for key, value in defined.items() if isinstance(value, ast.ClassDef | ast.FunctionDef)]
            things = [thing for thing in things if not thing.startswith("_")]
            found = f"{file} defines no {name}"
            allowed = ", ".join(things) or "none: it defines no class and no function"
            raise BadInput(Problem(where, found, allowed, nearest(name, things)))
        case _:
            found = f"{name} is assigned or imported, so its settings cannot be read without running the file"
            raise BadInput(Problem(f"{file}:{node.lineno}", found, "a class or a function defined by name"))


def _source(
    file: Path, node: ast.ClassDef | ast.FunctionDef, kind: Literal["structured", "function"], signature: Signature
) -> TrainableSource:
    return TrainableSource(
        file, node.name, kind, signature.settings, signature.open_ended, node.lineno, signature.required
    )


def _target(node: ast.ImportFrom, package: str) -> str:
    """Return the absolute name of the module that ``from ... import`` reads."""
    if not node.level:
        return node.module or ""
    parts = package.split(".")
    base = parts[: len(parts) - node.level + 1]
    return ".".join([*base, *([node.module] if node.module else [])])


def _parse(file: Path, where: str) -> ast.Module:
    if file.suffix != ".py":
        raise BadInput(Problem(where, f"{file} is not Python source", "a class or a function in a .py file"))
    try:
        return ast.parse(source_text(file))
    except SyntaxError as error:
        found = f"syntax error: {error.msg}"
        raise BadInput(Problem(f"{file}:{error.lineno or 1}", found, advice=f"named by {where}")) from None
    except (OSError, ValueError) as error:
        raise BadInput(Problem(str(file), f"cannot be read: {error}", advice=f"named by {where}")) from None


def check_settings(
    source: TrainableSource,
    grid: GridSpec,
    where: Callable[[Loc], str] = dotted,
    written: Mapping[str, Sequence[tuple[Loc, Scalar]]] | None = None,
) -> list[Problem]:
    """Check the grid's settings and factors against the trainable's, and what else arms and probes ask of it.

    Args:
        source: the trainable.
        grid: the study.
        where: turns a key path into a place; pass ``YamlSource.where`` to name lines.
        written: factor -> each level and where it is written; ``factors.NAME`` if not given.
    """
    problems: list[Problem] = []
    given: list[tuple[Loc, str, Any]] = [(("settings", key), key, value) for key, value in grid.settings.items()]
    for factor, levels in grid.factors.items():
        default = [(("factors", factor, position), level) for position, level in enumerate(levels)]
        places = written[factor] if written is not None else default
        given += [(loc, factor, level) for loc, level in places]
    for name, arm in grid.arms.items():
        if arm.repeat is None:
            given += [(("arms", name, "settings", key), key, value) for key, value in arm.settings.items()]
    unknown: set[Loc] = set()
    for loc, key, value in given:
        if key in source.settings:
            problems += _type_problem(source, where(loc), key, value)
        elif not source.open_ended:
            place = loc[: loc.index(key) + 1] if loc[0] == "factors" else loc
            if place in unknown:
                continue
            unknown.add(place)
            allowed = ", ".join(source.settings) or "none: it takes no settings"
            found = f'{source.name} has no setting "{key}"'
            problems.append(Problem(where(place), found, allowed, nearest(key, source.settings)))
    planned = cells(grid)
    for key in sorted(source.required - set(grid.settings)):
        lacking = [
            name
            for name, arm in grid.arms.items()
            if arm.repeat is None
            and any(key not in {**arm.settings, **cell} for owner, cell in planned if owner == name)
        ]
        if lacking:
            found = f"{source.name} needs a value for {key}, and {', '.join(lacking)} would have none"
            problems.append(Problem(where(("settings", key)), found, advice="add it to `settings`"))
    problems += _unprobed(source, grid, where(("probes",)))
    return problems + _unshared(source, grid, where)


def _unprobed(source: TrainableSource, grid: GridSpec, where: str) -> list[Problem]:
    if not grid.probes or source.kind == "structured":
        return []
    found = f"{source.name} is a function with a loop of its own, so nobody else can compute its loss"
    advice = "write it as a class with build, batches, players and loss, or leave out `probes`"
    return [Problem(where, found, "a structured trainable", advice=advice)]


def _unshared(source: TrainableSource, grid: GridSpec, where: Callable[[Loc], str]) -> list[Problem]:
    found = f"{source.name} is a function with a loop of its own, so nobody else can share its batches out"
    advice = "write it as a class with build, batches, players and loss, or leave out `workers`"
    return [
        Problem(where(("arms", name, "workers")), found, "a structured trainable", advice=advice)
        for name, arm in grid.arms.items()
        if arm.numerics.workers > 1 and arm.repeat is None and source.kind == "function"
    ]


def _type_problem(source: TrainableSource, where: str, key: str, value: Any) -> list[Problem]:
    judged = allowed_words(source.settings[key], value)
    if judged is None:
        return []
    words, texts = judged
    close = nearest(value, texts) if isinstance(value, str) else ""
    found = f"found {describe(value)}, and {source.name} declares {key}: {source.settings[key]}"
    return [Problem(where, found, words, close)]
