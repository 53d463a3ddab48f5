"""Models and data sets that ship: one model a file, its paper and equations in its header."""
