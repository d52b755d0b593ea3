"""Ask a service about each record, without waiting for one answer at a time: orders with the customer's country, over HTTP.

Requests are made by a pool of threads. One that fails with 503 is made again, one that takes too long is given up, and each
customer is asked for once in a minute. The service is a small one of this script, which fails the first time it is asked
for a customer.
"""

import argparse
import json
import threading
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from funken import AsyncDataStream, AsyncRetryStrategy, StreamExecutionEnvironment, blocking, cached

ORDERS = [(1, "ada"), (2, "bob"), (3, "ada"), (4, "eve"), (5, "bob"), (6, "zoe")]  # number, customer
CUSTOMERS = {"ada": "GB", "bob": "FI", "zoe": "GR"}


ASKED: set[str] = set()


class Service(BaseHTTPRequestHandler):
    def do_GET(self):
        customer = self.path.rpartition("/")[2]
        first = customer not in ASKED
        ASKED.add(customer)
        code = 503 if first else 200 if customer in CUSTOMERS else 404
        self.send_response(code)
        self.end_headers()
        if code == 200:
            self.wfile.write(json.dumps({"country": CUSTOMERS[customer]}).encode())

    def log_message(self, *_):
        pass


class Country:
    """Asks the service; runs in threads of the workers."""

    def __init__(self, url):
        self.url = url

    def async_invoke(self, order):
        try:
            with urllib.request.urlopen(f"{self.url}/customers/{order[1]}", timeout=10) as answer:
                return [json.load(answer)["country"]]
        except urllib.error.HTTPError as error:
            error.close()
            if error.code == 404:
                return ["unknown"]
            raise  # 503: the retry strategy makes the request again

    def timeout(self, order):
        return ["not known in time"]


def program(env, url):
    country = cached(
        blocking(Country(url), threads=8),
        ttl="1 min",
        key=lambda order: order[1],
        combine=lambda order, found: [(*order, *found)],
    )
    again = AsyncRetryStrategy.fixed_delay(
        max_attempts=5,
        backoff_time_millis=20,
        exception_predicate=lambda error: isinstance(error, urllib.error.HTTPError),
    )
    orders = env.from_collection(ORDERS).key_by(lambda order: order[1])  # all orders of a customer find the same cache
    return AsyncDataStream.ordered_wait_with_retry(orders, country, "20 s", again, capacity=50)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--url", help="a service that answers GET /customers/NAME; without it, the script starts one")
    given = parser.parse_args()
    url, server = given.url, None
    if url is None:
        server = ThreadingHTTPServer(("127.0.0.1", 0), Service)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"

    env = StreamExecutionEnvironment.get_execution_environment()
    program(env, url).map(lambda order: "order {}: {}, {}".format(*order)).print().set_parallelism(1)
    env.execute("enrichment")
    if server is not None:
        server.shutdown()
