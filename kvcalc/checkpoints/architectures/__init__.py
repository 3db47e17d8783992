"""How each model type's config becomes layers: one small function a family, defaults as rows."""
