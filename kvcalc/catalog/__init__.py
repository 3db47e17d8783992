"""Presets: names to core objects, user overrides, did-you-mean."""
