"""The demo on YARN, in cluster mode: a ResourceManager and a NodeManager on this machine, and ``funken demo`` in a container.

``python benchmarks/cluster/yarn.py [OPTIONS OF THE DEMO]``. Hadoop's servers are one jar from Maven Central, in the user's cache
after the first time; Java is fetched if there is none. Prints what the driver has printed in its container; exit code 1 if the
application failed.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import funken.__main__

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.support.hadoop import YarnCluster, hadoop_jars


def printed(folder: Path) -> str:
    """Return what the driver has printed: containers of executors print nothing of this."""
    return "".join(path.read_text(errors="replace") for path in sorted((folder / "logs").rglob("stdout")))


def main(arguments: list[str]) -> int:
    """Start both servers, submit, print."""
    jars, missing = hadoop_jars()
    if jars is None:
        print(missing, file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory(prefix="funken-yarn-") as folder:
        cluster = YarnCluster(folder, jars)
        try:
            cluster.start()
            print(f"YARN runs, its files are in {folder}; submitting: funken demo {' '.join(arguments)}", flush=True)
            done = cluster.submit("cluster", sys.executable, funken.__main__.__file__, "demo", *arguments)
            if done.returncode:
                print(done.stdout[-3000:], cluster.logs(), sep="\n", file=sys.stderr)
                return 1
            print(printed(Path(folder)))
            return 0
        finally:
            cluster.stop()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
