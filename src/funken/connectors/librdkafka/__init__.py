"""Messages out of librdkafka: a thread that fetches, runs of one partition, and a compiled helper that makes arrays of them.

It may import ``connectors.formats``; the client library is handed to it (``connectors.kafka.client``).
"""
