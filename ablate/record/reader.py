"""The store seen by whoever analyses it: Arrow tables, while a launch is writing too."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import closing
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import ValidationError

from ablate.design.spec import GridSpec
from ablate.errors import Problem, StoreError, nearest
from ablate.record.artifact_file import read_arrays
from ablate.record.attempt_rows import AttemptRows
from ablate.record.find_run import find_run
from ablate.record.open_part import Stored
from ablate.record.parquet import damage
from ablate.record.part import Part, live
from ablate.record.paths import StorePaths
from ablate.record.read_ahead import read_ahead
from ablate.record.remote_run import fetched
from ablate.record.schema import (
    artifacts_schema,
    attempts_schema,
    audits_schema,
    batches_schema,
    conform,
    factor_types,
    probes_schema,
    sketches_schema,
    trials_schema,
    unify,
)
from ablate.record.spec_file import SpecFile, read_spec
from ablate.remote.location import is_uri

_TRIES = 30
"""Looks at a data set that merges change meanwhile; each is in vain if one comes between listing and opening."""
_ROWS_AT_ONCE = 300_000
"""Rows of several trials that are read in one call: 2 MB a column of numbers. The next ones are read meanwhile."""
_SKETCHES_AT_ONCE = 4_000
"""Sketches that are read in one call: 8 MB of them."""
T = TypeVar("T")


class Run:
    """One study's recorded trials.

    Attributes:
        paths: where its files are; of one at a URI, where they were fetched to.
        uri: where it is, if that is at a URI.
        spec: the resolved grid as stored.
    """

    def __init__(self, root: Path | str) -> None:
        """Find the run.

        Args:
            root: a store's folder, the bare name of one under ``runs``, or a URI such as ``s3://bucket/runs/study``.

        Raises:
            BadInput: if there is no run; the nearest one is named.
            StoreError: if its ``spec.json`` is damaged or of a newer schema, or the store at a URI refuses.
        """
        self.uri = str(root) if is_uri(root) else None
        self.paths = StorePaths(fetched(self.uri) if self.uri else find_run(Path(root)))
        self.spec: SpecFile = read_spec(self.paths)
        self._heads: dict[Path, Part] = {}

    @cached_property
    def grid(self) -> GridSpec:
        """The resolved grid that the store belongs to.

        Raises:
            StoreError: if ``spec.json`` holds no grid that this ablate understands.
        """
        try:
            return GridSpec.model_validate_json(self.spec.grid)
        except ValidationError as error:
            found = f"holds no grid that this ablate understands ({error.errors()[0]['msg']})"
            advice = "read it with the ablate version that wrote it (column `ablate` in trials.parquet)"
            raise StoreError(Problem(str(self.paths.spec_json), found, advice=advice)) from error

    def trials(self) -> Any:
        """Return the table of trials, sorted by (arm, block, trial); empty if none ended yet.

        Raises:
            StoreError: if the file cannot be read.
        """
        path = self.paths.trials
        try:
            with damage(path):
                return pq.ParquetFile(path).read()
        except FileNotFoundError:
            return trials_schema(self._factors).empty_table()

    def batches(self, columns: Sequence[str] | None = None, filter: Any = None) -> Any:
        """Return batches; a trial's rows are contiguous and ascend by batch index.

        Args:
            columns: which to read (all).
            filter: a ``pyarrow.dataset`` expression; row groups that cannot match are not read.

        Raises:
            ValueError: if there is no such column.
            StoreError: if a part cannot be read.
        """
        return self._read(self.paths.batches, batches_schema(self._factors), columns, filter)

    def batches_of(
        self, groups: Iterable[Collection[str]], columns: Sequence[str], last: int | None = None
    ) -> Iterator[dict[str, Any]]:
        """Return the batches of one group of trials after the other, such as those of a block, read as few as can be.

        Which rows are a trial's is known without reading a column of them. The next rows are read while the caller
        looks at these; one view of the data set is read, whatever a launch writes meanwhile.

        Args:
            groups: ids of the trials in each.
            columns: which to read.
            last: of each trial so many rows at the end, and more if several attempts at it are there; None for all.

        Returns:
            Iterator[dict[str, Any]]: for each group the table of each trial that has any, by ascending batch.

        Raises:
            ValueError: if there is no such column.
            StoreError: if a part cannot be read.
        """
        base = batches_schema(self._factors)
        return self._of(self.paths.batches, base, groups, columns, _ROWS_AT_ONCE, last)

    def stored(self, trials: Iterable[str], columns: Sequence[str]) -> dict[str, tuple[Stored, ...]]:
        """Return what is stored of some columns of ``batches``, by trial id, without decoding any of it.

        It tells that trials are alike, at a fraction of the cost of reading their rows.

        Returns:
            dict: without trials of which it cannot be told, as of short ones, which share row groups.

        Raises:
            StoreError: if a part cannot be read.
        """
        folder = self.paths.batches
        with closing(_retried(lambda: AttemptRows(self._live(folder)), folder)) as rows:
            found = ((trial_id, rows.stored(trial_id, columns)) for trial_id in trials)
            return {trial_id: own for trial_id, own in found if own is not None}

    def columns(self) -> list[str]:
        """Return the names of the columns of ``batches``.

        Raises:
            StoreError: if a part cannot be read.
        """
        parts = self.parts(self.paths.batches)
        return list(unify([batches_schema(self._factors), *(part.schema for part in parts)]).names)

    def attempts(self, columns: Sequence[str] | None = None, filter: Any = None) -> Any:
        """Return batches of attempts that do not count, with ``attempt`` and ``reason``.

        Raises:
            StoreError: if a part cannot be read.
        """
        return self._read(self.paths.attempts, attempts_schema(self._factors), columns, filter)

    def audits(self, columns: Sequence[str] | None = None, filter: Any = None) -> Any:
        """Return audits of all attempts.

        Raises:
            StoreError: if a part cannot be read.
        """
        return self._read(self.paths.audits, audits_schema(self._factors), columns, filter)

    def audits_in_pieces(self, columns: Sequence[str]) -> Iterator[Any]:
        """Yield tables of audits of all attempts, of some ten thousand rows each.

        Text comes as dictionaries, as it is stored: a number a row in place of a string.

        Raises:
            ValueError: if there is no such column.
            StoreError: if a part cannot be read.
        """
        folder = self.paths.audits

        def opened() -> tuple[Any, list[tuple[Path, Any]]]:
            parts = self._live(folder)
            schema = _chosen(unify([audits_schema(self._factors), *(part.schema for part in parts)]), columns)
            text = [field.name for field in schema if pa.types.is_string(field.type)]
            coded = {part.path: [name for name in text if name in part.schema.names] for part in parts}
            with damage(folder):
                files = [(path, pq.ParquetFile(path, read_dictionary=own)) for path, own in coded.items()]
            return _coded(schema, text), files

        schema, files = _retried(opened, folder)
        for path, file in files:
            known = [name for name in columns if name in file.schema_arrow.names]
            with damage(path):
                for piece in file.iter_batches(columns=known):
                    yield conform(pa.Table.from_batches([piece]), schema)

    def artifacts(self, columns: Sequence[str] | None = None, filter: Any = None) -> Any:
        """Return artifacts, each trial's in the order in which they were made; images and arrays are in files.

        Raises:
            StoreError: if a part cannot be read.
        """
        return self._read(self.paths.artifacts, artifacts_schema(self._factors), columns, filter)

    def sketches(self, columns: Sequence[str] | None = None, filter: Any = None) -> Any:
        """Return sketches of the parameters, each trial's by ascending batch; ``ablate.record.sketch`` compares them.

        Raises:
            StoreError: if a part cannot be read.
        """
        return self._read(self.paths.sketches, sketches_schema(self._factors), columns, filter)

    def sketches_of(self, groups: Iterable[Collection[str]], columns: Sequence[str]) -> Iterator[dict[str, Any]]:
        """Return the sketches of one group of trials after the other, as ``batches_of`` does batches.

        Raises:
            ValueError: if there is no such column.
            StoreError: if a part cannot be read.
        """
        base = sketches_schema(self._factors)
        return self._of(self.paths.sketches, base, groups, columns, _SKETCHES_AT_ONCE, None)

    def probes(self, columns: Sequence[str] | None = None, filter: Any = None) -> Any:
        """Return what probes of the curvature found, each snapshot's rows in the order in which they were made.

        Raises:
            StoreError: if a part cannot be read.
        """
        return self._read(self.paths.probes, probes_schema(self._factors), columns, filter)

    def arrays(self, file: str) -> dict[str, Any]:
        """Return the images and arrays of a file that ``artifacts`` names, by their names.

        Raises:
            StoreError: if it is missing or damaged.
        """
        return read_arrays(self.paths.artifact_files / file)

    def parts(self, folder: Path) -> list[Part]:
        """Return the parts of a data set that count right now.

        Raises:
            StoreError: if a part cannot be read.
        """
        return _retried(lambda: self._live(folder), folder)

    def _live(self, folder: Path) -> list[Part]:
        """Return the parts that count: which are there is looked up; what one says is read once."""
        paths = self.paths.parts(folder)
        gone: FileNotFoundError | None = None
        for path in paths:
            if path not in self._heads:
                try:
                    self._heads[path] = Part.read(path)
                except FileNotFoundError as error:  # a merge unlinks many: what the others say will not be asked again
                    gone = error
        if gone is not None:
            raise gone
        return live(self._heads[path] for path in paths)

    @cached_property
    def _factors(self) -> dict[str, Any]:
        return factor_types(self.grid.factors)

    def _of(
        self,
        folder: Path,
        base: Any,
        groups: Iterable[Collection[str]],
        columns: Sequence[str],
        at_once: int,
        last: int | None,
    ) -> Iterator[dict[str, Any]]:
        with closing(_retried(lambda: AttemptRows(self._live(folder)), folder)) as rows:
            yield from read_ahead(rows, groups, _chosen(unify([base, rows.schema]), columns), at_once, last)

    def _read(self, folder: Path, base: Any, columns: Sequence[str] | None, where: Any) -> Any:
        def read() -> Any:
            import pyarrow.dataset as ds

            parts = self._live(folder)
            schema = unify([base, *(part.schema for part in parts)])
            names = _chosen(schema, schema.names if columns is None else columns).names
            if not parts:
                return schema.empty_table().select(names)
            files = [str(part.path) for part in parts]
            with damage(folder, (OSError,)):
                return ds.dataset(files, schema=schema, format="parquet").to_table(columns=names, filter=where)

        return _retried(read, folder)


def _chosen(schema: Any, columns: Sequence[str]) -> Any:
    for name in columns:
        if name not in schema.names:
            near = nearest(name, schema.names)
            raise ValueError(f"no column {name!r}; did you mean {near!r}? there are {schema.names}")
    return pa.schema([schema.field(name) for name in columns])


def _coded(schema: Any, text: Collection[str]) -> Any:
    kind = pa.dictionary(pa.int32(), pa.string())
    return pa.schema([field.with_type(kind) if field.name in text else field for field in schema])


def _retried(read: Callable[[], T], folder: Path) -> T:
    """Look again when a part was superseded and unlinked between listing and reading it."""
    for _ in range(_TRIES - 1):
        try:
            return read()
        except FileNotFoundError:
            continue
    try:
        return read()
    except FileNotFoundError as error:
        found = f"parts vanish while they are read ({error})"
        raise StoreError(Problem(str(folder), found, advice="is something deleting files there?")) from error
