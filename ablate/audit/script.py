"""`ablate guard`: runs a script as ``python SCRIPT ARGS`` or ``python -m MODULE ARGS`` would, under the guard.

The command replaces itself by a fresh interpreter (``start``), so that the script meets no module that it would not
meet without the guard, and signals, standard input and exit codes need no one in between. torch is not imported before
the script does it: a script may set ``OMP_NUM_THREADS`` first. The moment it has, the guard begins.

What is lost: a process that ends at once (``os._exit``, a kill) makes no closing report. The first finding has been
told by then, and the JSON file is brought up to date at each new place.
"""

from __future__ import annotations

import builtins
import contextlib
import importlib.machinery
import importlib.util
import json
import os
import signal
import sys
from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from pathlib import Path
from types import CodeType, FrameType, ModuleType, TracebackType
from typing import TYPE_CHECKING, Any

from ablate.audit.script_report import DONE, Place, Seen
from ablate.errors import BadInput, Problem

if TYPE_CHECKING:
    from ablate.audit.script_guard import ScriptGuard

FOUND = 5
"""Exit code when something was overwritten, whatever the script's own."""

_START = (
    "import sys; sys.path[:1] = [] if sys.path[0] == '' else sys.path[:1]; from ablate.audit.script import main; main()"
)


def start(words: Sequence[str], module: bool, first: int, json_file: Path | None) -> None:
    """Replace this process by one that runs the script under the guard; returns never.

    Args:
        words: the script's path, or the module's name, and its arguments.
        module: whether it is a module's name.
        first: watch only so many backward passes; 0: all.
        json_file: what was seen is written there.
    """
    options = {"module": module, "first": first, "json": str(json_file.absolute()) if json_file else ""}
    os.execv(sys.executable, [sys.executable, "-c", _START, json.dumps(options), *words])


def main() -> None:
    """Run what ``start`` was given, in the fresh interpreter."""
    options, words = json.loads(sys.argv[1]), sys.argv[2:]
    report = _Report(Seen(words, first=options["first"]), options["json"])
    try:
        report.write()
        after_torch(report.watch)
        own_main, code = _module(words) if options["module"] else _script(words)
    except BadInput as error:
        print(f"error: {error}", file=sys.__stderr__)
        sys.exit(error.exit_code)
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, report.terminated)
    sys.modules["__main__"] = own_main
    try:
        exec(code, own_main.__dict__)
    except SystemExit as exit_:
        report.end("exit", _exit_code(exit_))
    except KeyboardInterrupt as error:
        _print_traceback(error)
        if report.end("interrupted", None) != FOUND:
            sys.excepthook = lambda *_: None
            raise  # Python ends as it does after a Ctrl-C
        sys.exit(FOUND)
    except BaseException as error:
        _print_traceback(error)
        report.end("exception", 1)
    else:
        report.end(DONE, 0)
    sys.exit(report.code)


class _Report:
    """Tells on standard error what was seen and keeps the JSON file up to date, in the process that began."""

    def __init__(self, seen: Seen, json_file: str) -> None:
        self.seen = seen
        self.code = 0
        self._json_file = json_file
        self._guard: ScriptGuard | None = None
        self._process = os.getpid()

    def watch(self) -> None:
        """Begin to watch; torch has just been imported."""
        from ablate.audit.script_guard import ScriptGuard

        self._guard = ScriptGuard(self.seen, self._found)

    def end(self, how: str, own_code: int | None) -> int:
        """Tell everything, once; return the exit code. A forked copy of the process only gets its own code."""
        self.code = own_code or 0
        if os.getpid() != self._process:
            return self.code
        self.seen.ended, self.seen.exit_code = how, own_code
        if self._guard is not None:
            self._guard.look()
        _say(*self.seen.lines())
        self.write()
        if self.seen.tensors_overwritten:
            self.code = FOUND
        return self.code

    def terminated(self, number: int, frame: FrameType | None) -> None:
        """On SIGTERM: tell what was seen, then end as the signal ends a process, without running the script on."""
        if self.end("terminated", None) == FOUND:
            os._exit(FOUND)
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    def write(self) -> None:
        """Write the JSON file.

        Raises:
            BadInput: it cannot be written, before the script begins.
        """
        if not self._json_file:
            return
        try:
            Path(self._json_file).write_text(json.dumps(self.seen.to_json(), indent=1) + "\n", encoding="utf-8")
        except OSError as problem:
            wrong = Problem("--json", f"cannot write {self._json_file}: {problem.strerror}")
            if not self.seen.torch_imported and not self.seen.ended:
                raise BadInput(wrong) from None
            _say(f"ablate guard: {wrong}")

    def _found(self, place: Place) -> None:
        if len(self.seen.places) == 1:
            then = "torch refuses to go on" if place.refused else "the script goes on"
            _say(f"ablate guard: overwritten in backward pass {place.first_pass:,}: {place}; {then}")
        if self._guard is not None:
            self._guard.look()
        self.write()


def after_torch(then: Callable[[], None]) -> None:
    """Call ``then`` as soon as torch has been imported, in the thread that imports it."""
    if "torch" in sys.modules:
        then()
    else:
        sys.meta_path.insert(0, _AfterTorch(then))


class _AfterTorch(MetaPathFinder):
    def __init__(self, then: Callable[[], None]) -> None:
        self._then = then
        self._searching = False

    def find_spec(self, name: str, path: object = None, target: object = None) -> importlib.machinery.ModuleSpec | None:
        if name != "torch" or self._searching:
            return None
        self._searching = True
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self._searching = False
        if spec is None or spec.loader is None:
            return spec
        loader: Any = spec.loader
        execute = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            del loader.exec_module
            sys.meta_path.remove(self)
            self._then()

        loader.exec_module = exec_module
        return spec


def _script(words: Sequence[str]) -> tuple[ModuleType, CodeType]:
    """Set the interpreter up for a script's file, as Python does; return its ``__main__`` and its code."""
    name = words[0]
    if os.path.isdir(name):
        raise BadInput(
            Problem(name, "is a folder", advice="name the script in it; for a package: ablate guard -m NAME")
        )
    try:
        text = Path(name).read_bytes()
    except OSError as problem:
        advice = "for a module's name: ablate guard -m NAME" if not os.path.exists(name) else ""
        raise BadInput(Problem(name, f"cannot be read: {problem.strerror}", advice=advice)) from None
    file = os.path.abspath(name)
    try:
        code = compile(text, file, "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as problem:
        line = f"{name}:{problem.lineno}" if isinstance(problem, SyntaxError) and problem.lineno else name
        what = problem.msg if isinstance(problem, SyntaxError) else str(problem)
        raise BadInput(Problem(line, f"is not Python: {what}")) from None
    loader = importlib.machinery.SourceFileLoader("__main__", file)
    own_main = _new_main(__file__=file, __loader__=loader, __package__=None, __spec__=None, __cached__=None)
    sys.argv[:] = words
    if not sys.flags.safe_path:
        sys.path.insert(0, os.path.dirname(os.path.realpath(name)))
    return own_main, code


def _module(words: Sequence[str]) -> tuple[ModuleType, CodeType]:
    """Set the interpreter up for a module's name, as ``python -m`` does; return its ``__main__`` and its code."""
    name = words[0]
    sys.argv[:] = ["-m", *words[1:]]
    if not sys.flags.safe_path:
        sys.path.insert(0, os.getcwd())
    spec = _find(name)
    if spec is not None and spec.submodule_search_locations is not None:
        name = f"{name}.__main__"
        spec = _find(name)
    if spec is None or spec.loader is None:
        file = name.endswith(".py") or os.sep in name
        advice = "a file is run without -m" if file else "run it from the folder that holds it, or set PYTHONPATH"
        raise BadInput(Problem(f"-m {words[0]}", f"no module named {name}", advice=advice))
    loader: Any = spec.loader
    try:
        code = loader.get_code(name)
    except SyntaxError as problem:
        raise BadInput(Problem(f"{problem.filename}:{problem.lineno}", f"is not Python: {problem.msg}")) from None
    if code is None:
        raise BadInput(Problem(f"-m {words[0]}", f"{name} has no Python code to run"))
    origin = spec.origin or ""
    sys.argv[0] = origin
    own_main = _new_main(
        __file__=origin, __loader__=loader, __package__=spec.parent, __spec__=spec, __cached__=spec.cached
    )
    return own_main, code


def _find(name: str) -> importlib.machinery.ModuleSpec | None:
    try:
        return importlib.util.find_spec(name)
    except ModuleNotFoundError as problem:
        if problem.name is not None and (name == problem.name or name.startswith(f"{problem.name}.")):
            return None
        raise BadInput(Problem(f"-m {name}", f"importing its package failed: {problem}")) from None
    except ValueError:  # relative, or without a spec
        return None


def _new_main(**names: object) -> ModuleType:
    own_main = ModuleType("__main__")
    own_main.__dict__.update(names, __builtins__=builtins, __annotations__={})
    return own_main


def _exit_code(exit_: SystemExit) -> int:
    """What Python makes of ``sys.exit``'s argument; words are printed, as Python does."""
    if exit_.code is None or isinstance(exit_.code, int):
        return int(exit_.code or 0) & 0xFF
    print(exit_.code, file=sys.stderr)
    return 1


def _print_traceback(error: BaseException) -> None:
    """Print what the script raised without the frames below it, through its own hook if it has set one."""
    trace: TracebackType | None = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    sys.excepthook(type(error), error.with_traceback(trace), trace)


def _say(*lines: str) -> None:
    """Print to what standard error was when the script began; one that was closed is no fault of the script's."""
    with contextlib.suppress(OSError, ValueError):
        print(*lines, sep="\n", file=sys.__stderr__, flush=True)
