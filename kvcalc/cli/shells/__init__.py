"""One completion script a shell, each written from the same `kvcalc.cli.complete.Tree`."""
