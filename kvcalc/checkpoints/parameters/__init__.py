"""Exact parameter counts from a Hugging Face config; `stored` has the bytes they are stored in."""

from kvcalc.checkpoints.parameters.count import count_parameters
from kvcalc.checkpoints.parameters.tally import ParameterCount

__all__ = ["ParameterCount", "count_parameters"]
