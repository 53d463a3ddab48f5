"""What a cluster's configuration promises, read without Ray: node types, their tags, and what is wrong with it."""
