"""A stream of requests through a block pool: schedulers, pools, time; `run.run` is one run."""
