"""Before any trial: import the trainable, check and cache its data, make every block's initial weights.

``python -m ablate.trial.prepare`` reads one JSON request from standard input and answers with JSON lines on what was
its standard output; what the trainable prints goes to standard error. It runs as a process of its own, at one thread
and with the plainest instruction set (``REFERENCE``), so that initial weights are the same bytes whichever machine and
arm the study has.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ablate.design.trial_spec import Frozen, Numerics, TrialSpec
from ablate.errors import AblateError
from ablate.trial.trace import last_lines

REFERENCE = Numerics(threads=1, env={"ATEN_CPU_CAPABILITY": "default"})


class Prepared(Frozen):
    """What preparation found out.

    Attributes:
        weights: model key -> sha256 of the stored initial weights; None for a trainable that gives none.
        data: model key -> hash of the data set; None for a trainable that gives none.
        source_hash: hash of the trainable's source.
        torch: version of torch.
    """

    weights: dict[str, str | None]
    data: dict[str, str | None]
    source_hash: str
    torch: str


def model_key(spec: TrialSpec) -> str:
    """Return the key of one block's initial weights under one set of settings."""
    text = json.dumps([spec.study, spec.trainable, spec.settings, spec.block], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


class Request(Frozen):
    """The trials to prepare for, one per distinct settings and block; where weights go; where to import from.

    ``workers`` is the largest number of them that any trial has.
    """

    specs: tuple[TrialSpec, ...]
    initial: str
    search: tuple[str, ...]
    workers: int = 1


class _Captured(BaseException):
    """Carries the model out of a function trainable as soon as it asks for its initial weights."""

    def __init__(self, model: Any) -> None:
        self.model = model


class CapturingContext:
    """Stands in for ``ctx`` while preparing: ``initialise`` hands the model out and ends the function."""

    def __init__(self, spec: TrialSpec) -> None:
        import torch

        from ablate.trial.draw import Draw

        self.batches = spec.batches
        self.draw = Draw(spec.study, spec.block)
        self.device = torch.device("cpu")
        self.dtype = torch.float32

    def initialise(self, model: Any) -> Any:
        """Hand the model out."""
        raise _Captured(model)

    def place(self, tensor: Any) -> Any:
        """Return the tensor as it is."""
        return tensor

    def compile(self, function: Any) -> Any:
        """Return the function as it is."""
        return function

    def data(self, *_: Any, **__: Any) -> Any:
        """Training began without ``initialise``: there is nothing to capture."""
        raise _Captured(None)

    batch = artifact = data


def prepare(request: Request, tell: Callable[[dict[str, Any]], None]) -> Prepared:
    """Prepare in this process; ``tell`` hears of progress."""
    import torch

    from ablate.trial import numerics, weights
    from ablate.trial.contract import checked_hash, checked_model
    from ablate.trial.importing import is_structured, load, source_hash
    from ablate.trial.workers import check_mean_over_rows

    numerics.apply(REFERENCE)
    made: dict[str, str | None] = {}
    data: dict[str, str | None] = {}
    hashes: dict[str, str] = {}
    trainable = load(request.specs[0].trainable, request.search)
    code = source_hash(trainable)
    if request.workers > 1:
        check_mean_over_rows(trainable)
    for done, spec in enumerate(request.specs):
        key = model_key(spec)
        weights.seed_global_generators(spec.study, spec.block)
        if is_structured(trainable):
            instance = trainable(**spec.settings)
            same = json.dumps(spec.settings, sort_keys=True)
            if same not in hashes:
                hashes[same] = checked_hash(instance.prepare())
            data[key] = hashes[same]
            model = checked_model(instance.build())
        else:
            data[key] = None
            try:
                trainable(dict(spec.settings), CapturingContext(spec))
                model = None
            except _Captured as captured:
                model = None if captured.model is None else checked_model(captured.model, "ctx.initialise")
        made[key] = None if model is None else weights.store(model, Path(request.initial))
        tell({"done": done + 1, "of": len(request.specs)})
    return Prepared(weights=made, data=data, source_hash=code, torch=torch.__version__)


def main() -> None:
    """Answer one request; an error becomes a JSON line, with the trainable's own traceback if it is the trainable's."""
    with os.fdopen(os.dup(1), "w") as answer:
        os.dup2(2, 1)  # nothing that the trainable prints can be taken for an answer

        def tell(message: dict[str, Any]) -> None:
            print(json.dumps(message), file=answer, flush=True)

        try:
            prepared = prepare(Request.model_validate_json(sys.stdin.read()), tell)
        except AblateError as error:
            tell({"error": [asdict(problem) for problem in error.problems], "exit_code": error.exit_code})
        except BaseException as error:
            tell({"trace": last_lines(error)})
        else:
            tell({"prepared": prepared.model_dump()})


if __name__ == "__main__":
    main()
    sys.stdout.flush()
    os._exit(0)  # a thread that the trainable left running would be waited for
