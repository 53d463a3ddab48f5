"""Offline analysis of a run: reads its Parquet files, knows neither torch nor ray."""
