"""What is checked while a trial runs: tensors overwritten between forward and backward, and undeclared draws."""
