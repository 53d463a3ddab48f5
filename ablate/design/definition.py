"""What a module defines at its top level and which settings a class or function takes, read off the syntax tree."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import TypeAlias

Definition: TypeAlias = (
    ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef | ast.ImportFrom | ast.Import | ast.Assign | ast.AnnAssign
)

_NO_INIT_BASES = {"object", "ABC", "Protocol", "Generic"}


@dataclass(frozen=True)
class Signature:
    """The settings that a definition takes.

    Attributes:
        settings: name -> annotation as text, empty if there is none.
        required: those without a default.
        open_ended: others may be taken too.
        takes_config_and_context: for a function: it can be called with two positional arguments.
    """

    settings: dict[str, str] = field(default_factory=dict)
    required: frozenset[str] = frozenset()
    open_ended: bool = False
    takes_config_and_context: bool = False


def definitions(tree: ast.Module) -> dict[str, Definition]:
    """Return what each top-level name was last bound to, looking into ``if``, ``try`` and ``with`` but no deeper."""
    found: dict[str, Definition] = {}
    _collect(tree.body, found)
    return found


def _collect(body: list[ast.stmt], found: dict[str, Definition]) -> None:
    for node in body:
        match node:
            case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
                found[node.name] = node
            case ast.ImportFrom() | ast.Import():
                for alias in node.names:
                    found[alias.asname or alias.name.split(".")[0]] = node
            case ast.Assign():
                for target in node.targets:
                    if isinstance(target, ast.Name):
                        found[target.id] = node
            case ast.AnnAssign(target=ast.Name(id=name)):
                found[name] = node
            case ast.If() | ast.For() | ast.While():
                _collect(node.orelse, found)
                _collect(node.body, found)
            case ast.With():
                _collect(node.body, found)
            case ast.Try():
                for handler in node.handlers:
                    _collect(handler.body, found)
                _collect([*node.body, *node.orelse, *node.finalbody], found)


def init_signature(node: ast.ClassDef, defined: dict[str, Definition], depth: int = 0) -> Signature:
    """Return what ``Thing(**settings)`` takes: the arguments of ``__init__``, or the fields of a dataclass.

    A class without an ``__init__`` of its own has its base's, if that is in the same file; a base from another file
    makes the class open-ended, since its ``__init__`` cannot be known.
    """
    own = next((item for item in node.body if isinstance(item, ast.FunctionDef) and item.name == "__init__"), None)
    if own is not None:
        return _arguments(own.args, skip_first=True)
    bases = [base for base in map(_base_name, node.bases) if base not in _NO_INIT_BASES]
    if any(_base_name(decorator) == "dataclass" for decorator in node.decorator_list):
        return _fields(node) if not bases else Signature(open_ended=True)
    if node.keywords or len(bases) > 1:
        return Signature(open_ended=True)
    if not bases:
        return Signature()
    base = defined.get(bases[0])
    if isinstance(base, ast.ClassDef) and base is not node and depth < 8:
        return init_signature(base, defined, depth + 1)
    return Signature(open_ended=True)


def function_signature(node: ast.FunctionDef) -> Signature:
    """Return what ``train(config, ctx)`` takes: its settings come in a mapping, so any are possible."""
    positional = [*node.args.posonlyargs, *node.args.args]
    needed = len(positional) - len(node.args.defaults)
    keywords_needed = any(default is None for default in node.args.kw_defaults)
    fits = needed <= 2 and (len(positional) >= 2 or node.args.vararg is not None) and not keywords_needed
    return Signature(open_ended=True, takes_config_and_context=fits)


def _arguments(args: ast.arguments, skip_first: bool) -> Signature:
    positional = args.args[1:] if skip_first and not args.posonlyargs else args.args
    settings: dict[str, str] = {}
    required: set[str] = set()
    lacking = len(args.posonlyargs) + len(args.args) - len(args.defaults)
    first = len(args.posonlyargs) + len(args.args) - len(positional)
    for position, argument in enumerate(positional, start=first):
        settings[argument.arg] = _text(argument.annotation)
        if position < lacking:
            required.add(argument.arg)
    for argument, default in zip(args.kwonlyargs, args.kw_defaults, strict=True):
        settings[argument.arg] = _text(argument.annotation)
        if default is None:
            required.add(argument.arg)
    return Signature(settings, frozenset(required), open_ended=args.kwarg is not None)


def _fields(node: ast.ClassDef) -> Signature:
    fields = [
        item
        for item in node.body
        if isinstance(item, ast.AnnAssign)
        and isinstance(item.target, ast.Name)
        and _base_name(item.annotation) != "ClassVar"
    ]
    settings = {item.target.id: _text(item.annotation) for item in fields if isinstance(item.target, ast.Name)}
    required = {item.target.id for item in fields if item.value is None and isinstance(item.target, ast.Name)}
    return Signature(settings, frozenset(required))


def _base_name(node: ast.expr) -> str:
    """Return the last name of ``a.b.Name``, ``Name[...]`` or ``Name(...)``."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case ast.Subscript(value=inner) | ast.Call(func=inner):
            return _base_name(inner)
    return ""


def _text(annotation: ast.expr | None) -> str:
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        return annotation.value
    return ast.unparse(annotation) if annotation is not None else ""
