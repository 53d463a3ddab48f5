"""The command line itself: its surface, its help, what it loads, what its exit codes say of misuse."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from ablate.cli import app
from tests.conftest import ABLATE

COMMANDS = (
    "init",
    "plan",
    "schema",
    "launch",
    "trial",
    "audit",
    "probe",
    "gap",
    "verdict",
    "saddle",
    "report",
    "import",
    "export",
    "check",
    "show",
    "status",
    "stop",
    "runs",
    "doctor",
    "guard",
)
SURFACE = {
    "init": {"folder"},
    "plan": {"grid", "--cluster", "--from", "--measure", "--json"},
    "schema": set(),
    "launch": {
        "grid",
        "--local",
        "--address",
        "--offer",
        "--cluster",
        "--leave-at-once",
        "--detach",
        "--runs",
        "--allow-mixed-code",
        "--json",
    },
    "trial": {"grid", "trial_id", "--runs"},
    "audit": {"grid", "--runs", "--save", "--against", "--json"},
    "probe": {"run", "--trial", "--at", "--local", "--address", "--allow-mixed-code", "--json"},
    "gap": {"run", "--json"},
    "verdict": {"run", "--fail-on", "--json"},
    "saddle": {"run", "--json"},
    "report": {"run", "--output"},
    "import": {
        "path",
        "--study",
        "--arm",
        "--block",
        "--step",
        "--loss",
        "--factor",
        "--reference",
        "--last",
        "--question",
        "--runs",
    },
    "export": {"run", "--to", "--output"},
    "show": {"run", "--batch", "--block", "--output"},
    "status": {"run", "--address", "--json"},
    "stop": {"run", "--address", "--json"},
    "runs": {"--runs", "--json"},
    "doctor": {"--address", "--grid", "--runs", "--json"},
    "check": {"run", "--json"},
    "guard": {"script", "-m", "--first", "--json"},
}
HEAVY = ("torch", "ray", "scipy", "pandas")


def loaded_by(place, *words):
    """Run a command in a process that then says which heavy packages it has loaded."""
    heavy = (*HEAVY, "pyarrow")
    code = (
        "import sys\nfrom ablate.cli import main\n"
        "try:\n    main()\nfinally:\n"
        f"    print('loaded', [name for name in {heavy!r} if name in sys.modules], file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *words], cwd=place.folder, env=place.environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stderr.partition("loaded ")[2].replace("'", '"')))


def test_the_surface_is_frozen():
    import typer

    group = typer.main.get_command(app)
    found = {
        name: {
            option.opts[0] if option.param_type_name == "option" else option.name
            for option in command.params
            if option.name != "help"
        }
        for name, command in group.commands.items()
    }
    assert found == SURFACE


def test_help_loads_nothing_heavy(place):
    assert loaded_by(place, "--help") == set()


def test_plan_loads_neither_torch_nor_ray(place):
    place.grid("arms:\n  one: {}\n  two: {settings: {at: 4}}\n")
    assert loaded_by(place, "plan", "grid.yaml").isdisjoint(HEAVY)


@pytest.mark.parametrize("words", [[], *([command] for command in COMMANDS)], ids=["ablate", *COMMANDS])
def test_every_command_has_help(place, words):
    done = place.ablate(*words, "--help")
    assert done.code == 0
    assert "Usage:" in done.out
    assert done.err == ""


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["lunch"], "No such command 'lunch'"),
        (["launch"], "Missing argument 'grid'"),
        (["launch", "grid.yaml", "--lokal"], "No such option"),
        (["gap", "a", "b"], "unexpected extra argument"),
    ],
)
def test_misuse_is_bad_input(place, words, says):
    done = place.ablate(*words)
    assert done.code == 2
    assert says in done.words
    assert "Traceback" not in done.text


def test_init_writes_a_study_and_says_what_next(place):
    done = place.ablate("init", "new folder")
    assert done.code == 0
    assert done.out.splitlines()[-1] == "next: ablate launch new folder/grid.yaml"
    assert place.ablate("plan", "new folder/grid.yaml").code == 0


def test_init_never_overwrites(place):
    (place.folder / "grid.yaml").write_text("mine")
    done = place.ablate("init")
    assert done.code == 2
    assert done.err.startswith("error: grid.yaml: is there already")
    assert (place.folder / "grid.yaml").read_text() == "mine"
    assert not (place.folder / "my_trainable.py").exists()


def test_a_plan_of_thousands_of_blocks(place):
    place.grid("arms:\n  one: {}\n  two: {settings: {at: 4}}\n", blocks=2000)
    planned = json.loads(place.ablate("plan", "grid.yaml", "--json").out, parse_constant=pytest.fail)
    assert planned["contrasts"][0]["smallest_p"] == 0


def test_the_schema_is_json_and_loads_nothing_heavy(place):
    assert json.loads(place.ablate("schema").out)["required"] == ["study", "question", "trainable", "blocks", "batches"]
    assert loaded_by(place, "schema") == set()


def test_plan_as_json_parses(place):
    place.grid("arms:\n  one: {}\n  two: {settings: {at: 4}}\n")
    planned = json.loads(place.ablate("plan", "grid.yaml", "--json").out, parse_constant=pytest.fail)
    assert len(planned["trials"]) == 4
    assert planned["study"] == "doubles"


@pytest.mark.parametrize("words", [["plan", "grid.yaml", "--json"], ["plan", "grid.yaml"]])
def test_a_reader_that_leaves_is_no_fault(place, words):
    place.grid("arms:\n  one: {}\n  two: {settings: {at: 4}}\n", blocks=2000)
    command = [str(ABLATE), *words]
    with subprocess.Popen(
        command, cwd=place.folder, env=place.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        process.stdout.close()
        said = process.stderr.read().decode()
    assert said == ""
    assert process.returncode == 0
