"""Every option once: its flags, help, group, and how it repeats; commands name what they take."""

from __future__ import annotations

from typing import NamedTuple

from kvcalc.core.errors import KvcalcError


class Option(NamedTuple):
    """One option, or the positional argument MODEL.

    `repeat`: "" takes one value; "product" makes a what-if table of several (comma list or
    repeated); "list" keeps several as one list; "pairs" collects NAME=VALUE, commas not split.
    """

    name: str
    flags: tuple[str, ...]
    metavar: str
    help: str
    panel: str
    default: str = ""
    repeat: str = "product"
    #: Names of a kind that completions offer: models, gpus, dtypes, engines, formats, commands …
    completes: str = ""
    choices: tuple[str, ...] = ()
    #: The key in Python, batch and kvcalc.toml where it is not the long flag.
    dest: str = ""

    @property
    def key(self) -> str:
        """The keyword in Python, the key in a batch line and in kvcalc.toml."""
        return self.dest or self.flags[-1].lstrip("-").replace("-", "_")

    @property
    def is_flag(self) -> bool:
        """Takes no value."""
        return not self.metavar

    def split(self, texts: list[str]) -> list[str]:
        """Repeated texts and comma lists as one list; NAME=VALUE pairs keep their commas."""
        if self.repeat == "pairs" or self.name == "group":
            return texts
        return [part.strip() for text in texts for part in _parts(text)]


def _parts(text: str) -> list[str]:
    """The pieces of a comma list; a number with separators is no list.

    "4,096" and "131,072" read as lists would be answered for 4 and 96 tokens. 128,256 and 500,200
    are lists: no leading zero, no short first piece, no power of two behind them.

    Raises:
        KvcalcError: "usage", naming both readings.
    """
    parts = text.split(",")
    if len(parts) < 2 or not all(p.isdecimal() for p in parts):
        return parts
    head, *rest = parts
    if len(head) > 3 or any(len(p) != 3 for p in rest):
        return parts
    number = int("".join(parts))
    if len(head) < 3 or any(p[0] == "0" for p in rest) or number % 1024 == 0:
        raise KvcalcError(
            "usage",
            f"{text} has two readings: the number {number}, or a list of {' and '.join(parts)}",
            f"write {number}, or repeat the option for a list",
        )  # fmt: skip
    return parts


LOAD, STORAGE, GPUS, ENGINE = "Load", "Storage", "Across GPUs", "Engine"
NUMBERS, OUTPUT, MACHINE, SHOW = "A model by its numbers", "Output", "Machine", "What to show"

_ALL = (
    Option("context", ("-c", "--context"), "TOKENS", "context of one request; 8K,32K makes a table",
           LOAD, "4,096, or the model's maximum if smaller"),
    Option("requests", ("-n", "--requests"), "N", "as many requests of that context", LOAD, "1"),
    Option("request", ("--request",), "TOKENS", "one request of a mixed batch; repeat it", LOAD,
           repeat="list"),
    Option("image", ("--image",), "WxH", "pixels of an image in the prompt; repeat it", LOAD,
           repeat="list"),
    Option("encoder_tokens", ("--encoder-tokens",), "N",
           "audio, image or source tokens the decoder attends to", LOAD, "the model's own"),
    Option("include_mtp", ("--include-mtp",), "",
           "also the draft (MTP) layers that the config.json names", LOAD, repeat=""),
    Option("shared_prefix", ("--shared-prefix",), "TOKENS",
           "prompt tokens all requests share, stored once", LOAD),
    Option("prefix_copies", ("--prefix-copies",), "N",
           "different prefixes among them, as one for each LoRA adapter", LOAD, "1"),
    Option("average_context", ("--average-context",), "TOKENS",
           "typical context, beside the worst case", LOAD),
    Option("allow_long_context", ("--allow-long-context",), "",
           "compute beyond the model's maximum", LOAD, repeat=""),
    Option("max_context", ("--max-context",), "TOKENS",
           "what naive allocation reserves for each request", LOAD),
    Option("prompt", ("--prompt",), "TOKENS", "tokens of the prompt, prefilled at once", LOAD),
    Option("output", ("--output",), "TOKENS", "tokens decoded after it", LOAD),
    Option("at", ("--at",), "N", "show the step after N decoded tokens; repeat it", SHOW,
           repeat="list"),
    Option("points", ("--points",), "N", "how many steps to list", SHOW),
    Option("chart", ("--chart",), "", "draw charts and bars, as on a terminal", SHOW,
           repeat=""),
    Option("no_chart", ("--no-chart",), "", "leave charts and bars out", SHOW, repeat=""),
    Option("requests_spec", ("--request",), "P:O[@S]",
           "prompt:output of one request, starting after step S; repeat it", LOAD, repeat="list"),
    Option("tokens", ("--tokens",), "N", "tokens to generate", LOAD),
    Option("kv_dtype", ("--kv-dtype",), "NAME", "bf16 fp8 int8 q8_0 …   all: kvcalc dtypes",
           STORAGE, "auto: 2 bytes", completes="dtypes"),
    Option("k_dtype", ("--k-dtype",), "NAME", "keys apart", STORAGE, completes="dtypes"),
    Option("v_dtype", ("--v-dtype",), "NAME", "values apart", STORAGE, completes="dtypes"),
    Option("dtype", ("--dtype",), "NAME", "the model's own dtype (activations, conv states)",
           STORAGE, "the model's", completes="dtypes"),
    Option("weights", ("--weights",), "NAME", "the weights' storage: bf16 fp8 int8 int4 awq …",
           STORAGE, "as stored", completes="weights"),
    Option("weight_bytes", ("--weight-bytes",), "SIZE", "the weights' size, like 35GiB", STORAGE),
    Option("block_size", ("--block-size",), "N", "tokens in a page", STORAGE, "16"),
    Option("tp", ("--tp",), "N", "tensor parallel: KV heads split, then copied", GPUS, "1"),
    Option("pp", ("--pp",), "N", "pipeline parallel: layers split", GPUS, "1"),
    Option("pp_layers", ("--pp-layers",), "N,N", "layers of each pipeline stage, as 16,32", GPUS,
           "dealt evenly", repeat="list"),
    Option("dp", ("--dp",), "N", "data parallel: whole replicas", GPUS, "1"),
    Option("dcp", ("--dcp",), "N", "decode-context parallel: tokens split, out of tp", GPUS, "1"),
    Option("ep", ("--ep",), "N", "expert parallel: whole experts split", GPUS, "1"),
    Option("gpu", ("--gpu",), "NAME",
           "h100, 4090, 8xh100, auto: those here …   all: kvcalc gpus", MACHINE, completes="gpus"),
    Option("gpu_memory", ("--gpu-memory",), "SIZE", "memory of one GPU, like 80GiB", MACHINE),
    Option("gpus", ("--gpus",), "N", "how many of them; alone it sets --tp", MACHINE, "1"),
    Option("utilization", ("--utilization",), "FRACTION", "share of the memory to use", MACHINE,
           "the engine's; all for none"),
    Option("reserve", ("--reserve",), "SIZE", "memory of each GPU to leave alone", MACHINE),
    Option("kv_pool", ("--kv-pool",), "SIZE", "KV pool of one GPU, if you know it", MACHINE),
    Option("kv_pool_tokens", ("--kv-pool-tokens",), "N", "the pool in tokens, if you know it",
           MACHINE),
    Option("price", ("--price",), "P", "of one GPU for an hour, in your currency, like 2.50",
           MACHINE),
    Option("solve", ("--solve",), "WHAT",
           "least or most of: gpus utilization context requests kv-dtype, or a setting's name",
           SHOW, repeat="", choices=("gpus", "utilization", "context", "requests", "kv-dtype")),
    Option("all", ("--all",), "", "list every candidate", SHOW, repeat=""),
    Option("why", ("--why",), "", "also list what was left out, and why", SHOW, repeat=""),
    Option("pool", ("--pool",), "SIZE", "memory for KV cache, like 45GiB", MACHINE),
    Option("host_pool", ("--pool",), "SIZE", "host RAM or disk given to KV, like 50GiB", MACHINE),
    Option("pool_per", ("--pool-per",), "WHOSE",
           "whose the pool is: rank (LMCache, SGLang) or total (vLLM)", MACHINE,
           choices=("rank", "total")),
    Option("host_ram", ("--host-ram",), "SIZE", "the host's RAM; the pool is a share of it",
           MACHINE),
    Option("chunk_tokens", ("--chunk-tokens",), "N",
           "only whole chunks of so many tokens are kept (LMCache: 256)", STORAGE),
    Option("bandwidth", ("--bandwidth",), "RATE", "of the link: 25GB/s, 64GiB/s, 200Gb/s (bits)",
           MACHINE),
    Option("bandwidth_per", ("--bandwidth-per",), "WHOSE",
           "rank: each has a link of its own; total: all share one", MACHINE, "total",
           choices=("rank", "total")),
    Option("transfers_per_second", ("--requests-per-second",), "R",
           "requests whose KV moves, as from prefill to decode nodes", LOAD),
    Option("host_set", ("--set",), "NAME=VALUE",
           "the pool by an engine's setting: max_local_cpu_size (LMCache) hicache_size "
           "kv_offloading_size cache_ram; repeat it", MACHINE, repeat="pairs"),
    Option("policy", ("--policy",), "NAME", "naive pow2 exact paged; repeat it", SHOW, "all",
           repeat="list", choices=("naive", "pow2", "exact", "paged")),
    Option("slots", ("--slots",), "N", "requests the pool has room for, without lengths", LOAD),
    Option("waste_fraction", ("--waste-fraction",), "F", "wasted share of each, as 0.62", LOAD),
    Option("window", ("--window",), "TOKENS", "a sliding window in every layer", LOAD),
    Option("keep", ("--keep",), "TOKENS", "tokens that eviction keeps", LOAD),
    Option("trace", ("--trace",), "FILE", "requests: JSON Lines or CSV, gzip or not, - for stdin; "
           "or a spec like poisson:rate=5,prompt=1K,output=200", LOAD, repeat="",
           completes="files"),
    Option("limit", ("--limit",), "N", "read at most so many requests", LOAD, "all"),
    Option("skip_bad", ("--skip-bad",), "", "count lines that are no request and go on", LOAD,
           repeat=""),
    Option("seed", ("--seed",), "N", "of a synthetic workload", LOAD, "the spec's, else 0"),
    Option("requests_per_second", ("--requests-per-second",), "R",
           "scale the trace's times to this rate", LOAD, "the trace's"),
    Option("cache_blocks", ("--cache-blocks",), "N",
           "replay prompts through an LRU of so many blocks; 0 is endless", SHOW, "0"),
    Option("longest_context", ("--max-context",), "TOKENS",
           "what a request may reach; naive reserves it", LOAD, "the model's maximum"),
    Option("blocks", ("--blocks",), "N", "blocks of the pool, vLLM's null block included", MACHINE),
    Option("scheduler", ("--scheduler",), "NAME", "vllm, or static: batch after batch", ENGINE,
           "vllm", choices=("vllm", "static")),
    Option("max_batched_tokens", ("--max-batched-tokens",), "N", "tokens of a step", ENGINE,
           "by GPU, else 2048"),
    Option("max_requests", ("--max-requests",), "N", "requests at once", ENGINE,
           "by GPU, else 256"),
    Option("prefix_caching", ("--prefix-caching",), "", "share equal prefixes, as vLLM does",
           ENGINE, repeat=""),
    Option("no_prefix_caching", ("--no-prefix-caching",), "", "share nothing", ENGINE, repeat=""),
    Option("each_policy", ("--policy",), "NAME", "naive pow2 exact paged; several side by side",
           ENGINE, "paged", choices=("naive", "pow2", "exact", "paged")),
    Option("trace_policy", ("--policy",), "NAME",
           "of the trace: naive pow2 exact paged; several side by side", ENGINE, "paged",
           repeat="list", choices=("naive", "pow2", "exact", "paged")),
    Option("clock", ("--clock",), "WHAT", "seconds by the roofline, or steps", SHOW,
           "seconds with a GPU", choices=("seconds", "steps")),
    Option("step_seconds", ("--step-seconds",), "S", "what a step lasts with --clock steps", SHOW,
           "0.02"),
    Option("per_request", ("--per-request",), "", "a row for each request", SHOW, repeat=""),
    Option("series", ("--series",), "N", "how many steps to list, or all", SHOW, "60", repeat=""),
    Option("solve_load", ("--solve",), "WHAT",
           "rate: the highest without queues; gpus: the fewest", SHOW, repeat="",
           choices=("gpus", "rate")),
    Option("max_wait", ("--max-wait",), "S", "seconds that 99% may wait, for --solve", SHOW, "1"),
    Option("engine", ("--engine",), "NAME", "whose rules: none is the textbook", ENGINE,
           "vllm in fit, else none",
           completes="engines"),
    Option("engine_version", ("--engine-version",), "V", "that engine's release", ENGINE,
           "newest known"),
    Option("set", ("--set",), "NAME=VALUE", "an engine setting by its own name; repeat it", ENGINE,
           repeat="pairs"),
    Option("layers", ("--layers",), "N", "layers, all alike", NUMBERS),
    Option("kv_heads", ("--kv-heads",), "N", "KV heads of a layer", NUMBERS),
    Option("head_dim", ("--head-dim",), "N", "elements of a head", NUMBERS),
    Option("query_heads", ("--query-heads",), "N", "query heads, for MHA beside it", NUMBERS),
    Option("value_dim", ("--value-dim",), "N", "elements of a value head", NUMBERS,
           "the head dim"),
    Option("parameters", ("--parameters",), "N", "parameters, for the weights", NUMBERS),
    Option("max_context_length", ("--max-context-length",), "N", "the model's maximum", NUMBERS),
    Option("group", ("--group",), "SPEC",
           "COUNT*KIND:HEADSxDIM[:WINDOW], as '52*sliding_window:8x128:1024'; repeat it", NUMBERS,
           repeat="list"),
    Option("vendor", ("--vendor",), "NAME", "only this vendor's", SHOW, repeat=""),
    Option("family", ("--family",), "TEXT", "only models whose family has this word", SHOW,
           repeat=""),
    Option("attention", ("--attention",), "KIND", "only mha gqa mqa mla mixed none", SHOW,
           repeat="", choices=("mha", "gqa", "mqa", "mla", "mixed", "none")),
    Option("min_memory", ("--min-memory",), "SIZE", "only GPUs with at least this", SHOW,
           repeat=""),
    Option("detect", ("--detect",), "", "this machine's GPUs, by its own tools", SHOW, repeat=""),
    Option("measured", ("--measured",), "FILE",
           "write the measured overheads there, as an engine profile", OUTPUT, repeat="",
           completes="files"),
    Option("names", ("--names",), "", "bare ids, one a line", SHOW, repeat=""),
    Option("id", ("--id",), "ID", "add: what to call it", SHOW, "the source's own name", repeat=""),
    Option("force", ("--force",), "", "add: write over your preset of that id", SHOW, repeat=""),
    Option("format", ("-f", "--format"), "NAME", "text plain json jsonl csv md svg html png",
           OUTPUT,
           "text on a terminal, else plain", repeat="", completes="formats"),
    Option("json", ("--json",), "", "the same as -f json", OUTPUT, repeat=""),
    Option("output_file", ("-o", "--output"), "FILE", "write there, whole or not at all", OUTPUT,
           repeat="", completes="files", dest="output_file"),
    Option("output_file_short", ("-o",), "FILE", "write there, whole or not at all", OUTPUT,
           repeat="", completes="files", dest="output_file"),
    Option("color", ("--color",), "WHEN", "auto always never", OUTPUT, "auto", repeat="",
           choices=("auto", "always", "never")),
    Option("quiet", ("-q", "--quiet"), "", "no warnings on stderr", OUTPUT, repeat=""),
    Option("verbose", ("-v", "--verbose"), "", "say where figures come from", OUTPUT, repeat=""),
)  # fmt: skip
OPTIONS = {option.name: option for option in _ALL}

COMMON = ("format", "json", "output_file", "color", "quiet", "verbose")
SHAPE = ("layers", "kv_heads", "head_dim", "query_heads", "value_dim", "parameters",
         "max_context_length", "group")  # fmt: skip
KV = ("kv_dtype", "k_dtype", "v_dtype", "dtype")
ENGINES = ("engine", "engine_version", "set")
