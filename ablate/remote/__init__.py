"""Objects at a ``pyarrow.fs`` URI: reached, leased, uploaded in pieces, waited for. Knows nothing of stores."""
