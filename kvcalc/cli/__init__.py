"""The Typer commands: parse, call, render, exit."""
