"""Weights and batches from another machine or version, for an audit to run on in place of this machine's own."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ablate.design.trial_spec import TrialSpec


@dataclass(frozen=True)
class Inputs:
    """What an audit runs on, by the keys of its trials.

    Attributes:
        weights: file of initial weights, named by its sha256; a trainable that gives none has no entry.
        batches: file of batches.
    """

    weights: Mapping[str, Path]
    batches: Mapping[str, Path]

    def weights_of(self, spec: TrialSpec, initial: Path) -> str | None:
        """Copy a trial's weights to a store's initial ones and return their sha256; None if it has none."""
        file = self.weights.get(trial_key(spec))
        if file is None:
            return None
        initial.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, initial / file.name)
        return file.stem


def trial_key(spec: TrialSpec) -> str:
    """Name a trial of an audit the same in every study that has it: its arm and levels."""
    return json.dumps([spec.arm, spec.factors], sort_keys=True)
