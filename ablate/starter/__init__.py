"""The files that ``ablate init`` copies: a grid and a trainable, both real and both run by the tests."""
