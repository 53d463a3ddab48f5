"""The text of a YAML file and its node tree, or one problem that says why there is none."""

from __future__ import annotations

from pathlib import Path

import yaml

from ablate.errors import BadInput, Problem, nearest


def compose(path: str | Path) -> yaml.Node | None:
    """Return the root node of a YAML file; None if the file holds nothing.

    Raises:
        BadInput: the file is missing, a folder, unreadable, not UTF-8 or malformed.
    """
    name = str(path)
    text = _read_text(Path(path))
    try:
        return yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        raise BadInput(_malformed(name, error)) from None
    except yaml.YAMLError as error:
        raise BadInput(Problem(name, f"not YAML: {' '.join(str(error).split())}")) from None
    except RecursionError:
        raise BadInput(Problem(name, "nested too deeply to be read")) from None


def _malformed(name: str, error: yaml.MarkedYAMLError) -> Problem:
    mark = error.problem_mark or error.context_mark
    where = f"{name}:{mark.line + 1}:{mark.column + 1}" if mark else name
    words = error.problem or "cannot be read"
    context = error.context or ""
    if error.context_mark and mark and error.context_mark.line != mark.line:
        context += f" that begins in line {error.context_mark.line + 1}"
    advice = "indent with spaces, never with tabs" if "'\\t'" in words else "check indentation, quotes and colons there"
    return Problem(where, f"not YAML: {context}{': ' if context else ''}{words}", advice=advice)


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        folder = path.parent
        if not folder.is_dir():
            raise BadInput(Problem(str(path), f"no such file: the folder {folder} does not exist")) from None
        names = [entry.name for entry in folder.iterdir() if entry.is_file()]
        close = nearest(path.name, names)
        yamls = sorted(name for name in names if name.endswith((".yaml", ".yml")))[:8]
        raise BadInput(
            Problem(
                str(path),
                "no such file",
                allowed=f"in {folder.resolve()}: {', '.join(yamls)}" if yamls and not close else "",
                nearest=str(path.with_name(close)) if close else "",
                advice="" if yamls or close else "`ablate init` writes a grid file to start from",
            )
        ) from None
    except (IsADirectoryError, NotADirectoryError):
        found = "a folder, not a file" if path.is_dir() else "no such file: a part of the path is a file, not a folder"
        raise BadInput(Problem(str(path), found, "a grid file, such as grid.yaml")) from None
    except UnicodeDecodeError as error:
        raise BadInput(
            Problem(str(path), f"not UTF-8 text: byte {error.start} is 0x{error.object[error.start]:02x}")
        ) from None
    except (OSError, ValueError) as error:
        raise BadInput(Problem(str(path), f"cannot be read: {getattr(error, 'strerror', None) or error}")) from None
