"""A model's own files: config.json, safetensors and GGUF headers, the hub."""
