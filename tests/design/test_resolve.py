# ruff: noqa: E501  (an expected message reads best in one piece)
from __future__ import annotations

import sys
import textwrap

import pytest

from ablate.design.resolve import check_settings, find_trainable
from ablate.design.yaml_source import read_yaml
from ablate.errors import BadInput

EXPLODE = "raise RuntimeError('a module was imported')\n"


@pytest.fixture
def write(tmp_path):
    """Write Python files, each of which fails if it is imported."""

    def write(**files):
        for name, text in files.items():
            path = tmp_path / (name.replace("__", "/") + ".py")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(EXPLODE + textwrap.dedent(text), encoding="utf-8")
        return tmp_path

    return write


def refusal(path, search):
    with pytest.raises(BadInput) as caught:
        find_trainable(path, search)
    return str(caught.value)


MODEL = """\
class Model:
    def __init__(self, *, lr: float = 0.1, layers: int = 3, mode: "Literal['a', 'b']" = "a", free=None, need: str):
        pass
"""


def test_a_class(write):
    folder = write(model=MODEL)
    source = find_trainable("model:Model", [folder])
    assert source.file == folder / "model.py"
    assert (source.name, source.kind, source.open_ended, source.line) == ("Model", "structured", False, 2)
    assert source.settings == {
        "lr": "float",
        "layers": "int",
        "mode": "Literal['a', 'b']",
        "free": "",
        "need": "str",
    }
    assert source.required == {"need"}
    assert "model" not in sys.modules


def test_a_function(write):
    folder = write(model="def train(config, ctx): ...\n")
    source = find_trainable("model:train", [folder])
    assert (source.kind, source.open_ended, source.settings) == ("function", True, {})


def test_packages_around_it_do_not_run(write):
    folder = write(**{"pkg____init": "", "pkg__sub__model": MODEL})
    (folder / "pkg" / "__init__.py").write_text(EXPLODE)
    assert find_trainable("pkg.sub.model:Model", [folder]).file == folder / "pkg" / "sub" / "model.py"
    assert not {"pkg", "pkg.sub"} & set(sys.modules)


def test_search_comes_before_what_is_installed(write):
    folder = write(json="class JSONDecoder: ...\n")
    assert find_trainable("json:JSONDecoder", [folder]).file == folder / "json.py"


@pytest.mark.parametrize(
    "line", ["from .model import Model", "from pkg.model import Model", "from . import model as m"]
)
def test_a_name_imported_from_elsewhere_is_followed(write, line):
    folder = write(pkg__model=MODEL)
    (folder / "pkg" / "__init__.py").write_text(f"{line}\nfrom .model import Model as Renamed\n")
    assert find_trainable("pkg:Renamed", [folder]).file == folder / "pkg" / "model.py"


def test_a_definition_inside_try_or_if_counts(write):
    folder = write(model="try:\n    import x\nexcept ImportError:\n    pass\nelse:\n    class Model: ...\n")
    assert find_trainable("model:Model", [folder]).line == 7


@pytest.mark.parametrize(
    ("text", "settings", "open_ended"),
    [
        ("class M: ...", set(), False),
        ("class M(object): ...", set(), False),
        ("class M:\n    def __init__(self, a, *, b=1): ...", {"a", "b"}, False),
        ("class M:\n    def __init__(self, *, a=1, **rest): ...", {"a"}, True),
        ("class Base:\n    def __init__(self, *, a=1): ...\nclass M(Base): ...", {"a"}, False),
        ("class M(elsewhere.Base): ...", set(), True),
        ("class M(A, B): ...", set(), True),
        ("class M(metaclass=Meta): ...", set(), True),
        ("@dataclass\nclass M:\n    a: int = 1\n    c: ClassVar[int] = 2", {"a"}, False),
        ("@dataclasses.dataclass(frozen=True)\nclass M:\n    a: int\n    b = 3", {"a"}, False),
        ("@dataclass\nclass M(Base):\n    a: int", set(), True),
    ],
)
def test_which_settings_a_class_takes(write, text, settings, open_ended):
    source = find_trainable("model:M", [write(model=text)])
    assert set(source.settings) == settings
    assert source.open_ended is open_ended


def test_required_arguments_are_those_without_a_default(write):
    folder = write(model="class M:\n    def __init__(self, a, b=1, *, c, d=2): ...\n")
    assert find_trainable("model:M", [folder]).required == {"a", "c"}


@pytest.mark.parametrize("path", ["model", "model:", ":Model", "a..b:C", "a.b:C.D", "a-b:C", "a b:C"])
def test_malformed_path(path):
    assert (
        refusal(path, [])
        == f'trainable: found "{path}"\n    allowed: an import path, such as my_package.my_module:Thing'
    )


def test_unknown_module_names_the_nearest(write):
    folder = write(my_model=MODEL)
    assert refusal("my_modle:Model", [folder]) == (
        "trainable my_modle:Model: there is no module my_modle\n    did you mean 'my_model'?\n"
        f"    searched: {folder}, and everything that is installed"
    )


def test_unknown_module_in_a_package_names_the_nearest_there(write):
    folder = write(pkg__my_model=MODEL)
    (folder / "pkg" / "__init__.py").write_text("")
    assert refusal("pkg.my_modl:Model", [folder]) == (
        "trainable pkg.my_modl:Model: there is no module pkg.my_modl\n    did you mean 'pkg.my_model'?\n"
        f"    searched: {folder}, and everything that is installed"
    )


@pytest.mark.parametrize("module", ["sys", "model.inner", "no.such.module"])
def test_what_has_no_file_is_no_module(write, module):
    folder = write(model=MODEL)
    assert refusal(f"{module}:x", [folder]) == (
        f"trainable {module}:x: there is no module {module}\n    searched: {folder}, and everything that is installed"
    )


def test_unknown_name_lists_what_the_file_defines(write):
    folder = write(model=MODEL + "def train(config, ctx): ...\ndef _private(): ...\nx = 1\n")
    assert refusal("model:Modle", [folder]) == (
        f"trainable model:Modle: {folder / 'model.py'} defines no Modle\n    did you mean 'Model'?\n"
        "    allowed: Model, train"
    )


def test_a_file_that_defines_nothing(write):
    folder = write(model="x = 1\n")
    assert refusal("model:Model", [folder]) == (
        f"trainable model:Model: {folder / 'model.py'} defines no Model\n"
        "    allowed: none: it defines no class and no function"
    )


@pytest.mark.parametrize("text", ["Model = make()", "Model: type = make()", "import Model"])
def test_an_assigned_name_cannot_be_read(write, text):
    folder = write(model=text)
    assert refusal("model:Model", [folder]) == (
        f"{folder / 'model.py'}:2: Model is assigned or imported, so its settings cannot be read without running the "
        "file\n    allowed: a class or a function defined by name"
    )


def test_an_import_circle_ends(write):
    folder = write(a="from b import M", b="from a import M")
    assert "M is assigned or imported" in refusal("a:M", [folder])


@pytest.mark.parametrize("signature", ["()", "(config)", "(a, b, c)", "(*, config, ctx)", "(a, b, *, c)"])
def test_a_function_of_another_shape(write, signature):
    folder = write(model=f"def train{signature}: ...")
    assert refusal("model:train", [folder]) == (
        f"{folder / 'model.py'}:2: train is a function that cannot be called as train(config, ctx)\n"
        "    allowed: def train(config, ctx)"
    )


@pytest.mark.parametrize("signature", ["(config, ctx)", "(*args)", "(a, b, c=1)", "(a, /, b)", "(a, *rest, k=1)"])
def test_functions_that_can_be_called(write, signature):
    assert find_trainable("model:train", [write(model=f"def train{signature}: ...")]).kind == "function"


def test_an_async_function(write):
    folder = write(model="async def train(config, ctx): ...")
    assert refusal("model:train", [folder]) == (
        f"{folder / 'model.py'}:2: train is async\n    allowed: a class or a plain function"
    )


def test_a_syntax_error_has_its_line(write):
    folder = write(model="class Model:\n    def f(self:\n")
    assert refusal("model:Model", [folder]) == (
        f"{folder / 'model.py'}:3: syntax error: '(' was never closed\n    named by trainable model:Model"
    )


def test_a_file_that_is_not_text(tmp_path):
    (tmp_path / "model.py").write_bytes(b"x = '\xff'\n")
    found = refusal("model:Model", [tmp_path])
    assert found.startswith(f"{tmp_path / 'model.py'}")
    assert found.endswith("named by trainable model:Model")


def test_compiled_code_cannot_be_read(tmp_path):
    suffix = __import__("importlib.machinery").machinery.EXTENSION_SUFFIXES[0]
    (tmp_path / f"model{suffix}").write_bytes(b"")
    assert refusal("model:Model", [tmp_path]) == (
        f"trainable model:Model: {tmp_path / f'model{suffix}'} is not Python source\n"
        "    allowed: a class or a function in a .py file"
    )


@pytest.fixture
def check(write, load):
    def check(text, model=MODEL):
        source = find_trainable("model:Model", [write(model=model)])
        return [str(problem) for problem in check_settings(source, load(text), read_yaml("grid.yaml").where)]

    return check


ALL = "lr, layers, mode, free, need"


@pytest.mark.parametrize(
    ("text", "messages"),
    [
        ("settings: {need: x}", []),
        ("settings: {need: x, lr: 1, layers: 2, mode: b, free: [1, {a: 2}]}", []),
        ("factors: {need: [x, y]}", []),
        ("arms: {a: {settings: {need: x}}, b: {settings: {need: y}}, c: {repeat: a}}", []),
        ("settings: {need: x, lyers: 2}", [f"6: settings.lyers: Model has no setting \"lyers\"\n    did you mean 'layers'?\n    allowed: {ALL}"]),
        ("settings: {need: x}\nfactors: {rate: [1, 2]}", [f'7: factors.rate: Model has no setting "rate"\n    allowed: {ALL}']),
        ("settings: {need: x}\narms: {a: {settings: {xx: 1}}}", [f'7: arms.a.settings.xx: Model has no setting "xx"\n    allowed: {ALL}']),
        ("settings: {need: x, layers: 2.5}", ["6: settings.layers: found 2.5 (a number), and Model declares layers: int\n    allowed: a whole number"]),
        ("settings: {need: 3}", ["6: settings.need: found 3 (a whole number), and Model declares need: str\n    allowed: text"]),
        ("settings: {need: x}\nfactors:\n  lr:\n  - true\n  - false", [f"{line}: factors.lr[{line - 9}]: found {value} (a boolean), and Model declares lr: float\n    allowed: a number" for line, value in ((9, "true"), (10, "false"))]),
        ("settings: {need: x}\narms: {a: {settings: {mode: aa}}}", ["7: arms.a.settings.mode: found \"aa\" (text), and Model declares mode: Literal['a', 'b']\n    did you mean 'a'?\n    allowed: a or b"]),
        ("settings: {lr: 1}", ["6: settings.need: Model needs a value for need, and default would have none\n    add it to `settings`"]),
        ("arms: {a: {settings: {need: x}}, b: {}, c: {repeat: b}}", ["1: settings.need: Model needs a value for need, and b would have none\n    add it to `settings`"]),
    ],
)  # fmt: skip
def test_settings_against_the_trainable(check, text, messages):
    assert check(text) == [f"grid.yaml:{message}" for message in messages]


def test_an_open_ended_trainable_takes_any_name_but_keeps_its_types(check):
    model = "class Model:\n    def __init__(self, *, lr: float = 1.0, **rest): ...\n"
    assert check("settings: {anything: 1, lr: 2}", model) == []
    assert len(check("settings: {anything: 1, lr: x}", model)) == 1


def test_a_trainable_without_settings(check):
    assert check("settings: {lr: 1}", "class Model: ...\n") == [
        'grid.yaml:6: settings.lr: Model has no setting "lr"\n    allowed: none: it takes no settings'
    ]
