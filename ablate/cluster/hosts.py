"""A lab's machines: what each offers stands in the cluster file's ``metadata.hosts``, by address.

Ray's provider for machines that are already there (``provider: {type: local}``) knows one node type only and refuses
others, so each machine says at its start what it offers (`ablate.cluster.host_flags`). ``metadata`` is the part of
the file that Ray leaves to its users.
"""

from __future__ import annotations

from ablate.cluster.cluster_file import ClusterFile
from ablate.cluster.parts import find, mapping, whole
from ablate.design.yaml_source import Loc
from ablate.errors import BadInput, Problem, nearest

HOSTS: Loc = ("metadata", "hosts")

EXAMPLE = "`hosts: {10.0.0.11: {CPU: 4, i5_4590: 1}}` under `metadata:`"


def hosts(file: ClusterFile) -> list[tuple[str, dict[str, float], bool]]:
    """Return each machine's address, what it offers, and whether it is the head; the head first.

    Raises:
        BadInput: a machine that Ray is to start has no entry or is listed twice, an entry is for no machine, or
            amounts are no whole numbers.
    """
    problems: list[Problem] = []
    head, workers = find(file, ("provider", "head_ip")), find(file, ("provider", "worker_ips"))
    if not isinstance(head, str):
        problems.append(file.problem(("provider", "head_ip"), "missing or no text", "the head's address or name"))
    if not isinstance(workers, list):
        problems.append(file.problem(("provider", "worker_ips"), "missing or no list", "the workers' addresses"))
    entries = mapping(file, HOSTS, problems, f"what each machine offers, as {EXAMPLE}")
    listed = [str(head), *(str(worker) for worker in workers or [])] if not problems else []
    for position, name in enumerate(listed):
        here: Loc = ("provider", "worker_ips", position - 1) if position else ("provider", "head_ip")
        if name in listed[:position]:
            problems.append(file.problem(here, f"{name} is listed twice", advice="remove one of them"))
        elif name not in entries:
            problems.append(
                file.problem(here, f"{name} has no entry in metadata.hosts", EXAMPLE, nearest(name, entries))
            )
    for name in entries if listed else ():
        if name not in listed:
            found = f"{name} is neither the head nor a worker, so Ray will not start it"
            close = nearest(name, set(listed) - entries.keys())
            problems.append(file.problem((*HOSTS, name), found, "an address under `provider`", close))
    offers = {name: offer(file, name, problems) for name in entries}
    if problems:
        raise BadInput(*problems)
    return [(name, offers[name], position == 0) for position, name in enumerate(listed)]


def offer(file: ClusterFile, name: str, problems: list[Problem]) -> dict[str, float]:
    """Return what one machine offers; what is wrong with it is added to ``problems``."""
    amounts = mapping(file, (*HOSTS, name), problems, "resource names with whole amounts")
    if amounts and "CPU" not in amounts:
        problems.append(
            file.problem((*HOSTS, name), "no CPU", advice="write how many cores trials may use; 0 for a head without")
        )
    return {key: float(whole(file, (*HOSTS, name, key), problems)) for key in amounts}
