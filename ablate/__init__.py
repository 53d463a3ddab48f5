"""ablate: does training still come out the same after you changed the machine, a flag or a version?"""

__version__ = "0.1.0"
