"""An engine's own start-up log to what it measured; one file an engine family for its wordings."""
