"""What each serving engine does: storage, budget, blocks, defaults by version."""
