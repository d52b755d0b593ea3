"""The options of security; Flink's names where Flink has the option."""

from __future__ import annotations

from funken.config.options import _option
from funken.config.values import boolean

SSL_INTERNAL_ENABLED = _option(
    "security.ssl.internal.enabled",
    boolean,
    False,
    "Whether everything between the processes of a job is encrypted: Funken's own connections by TLS 1.3 with a certificate made "
    "for the job, which both sides present; what a continuous job shuffles, by sealing it; and in sessions that Funken starts, "
    "Spark's by `spark.authenticate`, `spark.network.crypto.enabled` and `spark.io.encryption.enabled`. Needs `pip install "
    "'funken[tls]'` where the driver runs, and where workers of continuous jobs do.",
)
