"""Data that ships with the trainables; NOTICE.md says where each file comes from and under which licence."""
