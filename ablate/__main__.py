"""``python -m ablate``: the command line under a chosen interpreter, as a job on a cluster is started."""

from ablate.cli import main

main()
