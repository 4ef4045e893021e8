"""A Ray cluster of two nodes on this machine, in a separate process. It prints its addresses and ends with its input.

The second node has another home folder, so the nodes do not share a store under ~.
"""

import sys
import warnings
from importlib.util import find_spec
from pathlib import Path

from ray.cluster_utils import Cluster

if __name__ == "__main__":
    home = Path(sys.argv[1])
    warnings.simplefilter("ignore")
    quiet = {"dashboard_agent_listen_port": 0, "min_worker_port": 0, "max_worker_port": 0}
    cluster = Cluster(
        initialize_head=True,
        head_node_args={
            "num_cpus": 0,
            "include_dashboard": find_spec("aiohttp_cors") is not None,  # comes with ray[default] alone
            "dashboard_port": 0,
            "object_store_memory": 80_000_000,
            **quiet,
        },
    )
    try:
        node = {"HOME": str(home), "TUNE_TICKETS_CACHE": "of-the-node"}
        cluster.add_node(num_cpus=1, object_store_memory=80_000_000, env_vars=node, **quiet)
        cluster.wait_for_nodes()
        print(f"address={cluster.address} {cluster.head_node.webui_url}", flush=True)
        sys.stdin.read()
    finally:
        cluster.shutdown()
