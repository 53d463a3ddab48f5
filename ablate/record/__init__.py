"""What a trial leaves behind: a crash-safe journal, Parquet data sets, and the checks that hold them together."""
