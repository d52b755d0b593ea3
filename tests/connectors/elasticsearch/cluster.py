"""A stand-in for a cluster of Elasticsearch: the bulk API with ids, upserts, mappings, conflicts and rejections.

It answers as Elasticsearch 8 does: the status of each item, ``errors``, the types of exceptions. Types of fields are fixed by
the first document of an index, as dynamic mappings are.
"""

import json
import threading
from base64 import b64encode
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from uuid import uuid4

REFUSED = {("long", "text"), ("float", "text"), ("boolean", "text"), ("object", "text"), ("text", "object")}
"""Pairs of the type of a field and that of a value: numbers fit into text, text not into numbers."""


def kind_of(value):
    kinds = {bool: "boolean", int: "long", float: "float", str: "text", dict: "object"}
    return kinds.get(type(value[0] if isinstance(value, list) and value else value))


class Cluster:
    """Documents by index and id. ``rejections``: of the actions to come, so many are answered with 429; ``answers``: statuses."""

    def __init__(self, user=None, limit=100 * 2**20):
        self.indices, self.mappings, self.requests = {}, {}, []
        self.rejections, self.answers, self.limit = 0, [], limit
        self.after = {}  # a number of requests: what is called when so many were answered
        self.authorization = None if user is None else f"Basic {b64encode(user.encode()).decode()}"
        self._lock = threading.Lock()
        cluster = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def handle_one(self):
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                status, answer = cluster.answer(self.command, self.path, body, self.headers)
                data = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            do_GET = do_POST = handle_one

            def log_message(self, *given):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def documents(self, index):
        return list(self.indices.get(index, {}).values())

    def answer(self, method, path, body, headers):
        with self._lock:
            self.requests.append((method, path, body))
            if self.authorization and headers.get("Authorization") != self.authorization:
                return 401, error(401, "security_exception", "unable to authenticate user")
            if self.answers:
                status = self.answers.pop(0)
                if status != 200:
                    return status, error(status, "unavailable", "try again")
            if path == "/":
                return 200, {"cluster_name": "stand-in", "version": {"number": "8.15.0"}}
            if path != "/_bulk" or method != "POST":
                return 404, error(404, "no_handler_found", path)
            if headers["Content-Type"] != "application/x-ndjson":
                return 406, error(406, "media_type_header_exception", headers["Content-Type"])
            if len(body) > self.limit:
                return 413, error(413, "content_too_long", "the request is too large")
            if not body.endswith(b"\n"):
                return 400, error(
                    400, "illegal_argument_exception", "The bulk request must be terminated by a newline [\\n]"
                )
            return 200, self.bulk([json.loads(line) for line in body.splitlines()])

    def bulk(self, lines):
        items = []
        while lines:
            ((operation, head),) = lines.pop(0).items()
            source = None if operation == "delete" else lines.pop(0)
            items.append({operation: {"_index": head["_index"], **self.act(operation, head, source)}})
        return {"took": 1, "errors": any("error" in each for item in items for each in item.values()), "items": items}

    def act(self, operation, head, source):
        if self.rejections:
            self.rejections -= 1
            return error(429, "es_rejected_execution_exception", "rejected execution of coordinating operation")
        index, number = self.indices.setdefault(head["_index"], {}), head.get("_id")
        if operation == "delete":
            found = index.pop(number, None)
            return {
                "_id": number,
                "status": 404 if found is None else 200,
                "result": "deleted" if found else "not_found",
            }
        if operation == "create" and number in index:
            return error(
                409, "version_conflict_engine_exception", f"[{number}]: version conflict, document already exists"
            )
        if operation == "update":
            if number not in index and not source.get("doc_as_upsert"):
                return error(404, "document_missing_exception", f"[{number}]: document missing")
            source = {**index.get(number, {}), **source["doc"]}
        mapping = self.mappings.setdefault(head["_index"], {})
        for name, value in source.items():
            kind = kind_of(value)
            mapped = mapping.setdefault(name, kind) if kind is not None else None
            if (mapped, kind) in REFUSED:
                return error(400, "document_parsing_exception", f"failed to parse field [{name}] of type [{mapped}]")
        number = number or uuid4().hex
        created = number not in index
        index[number] = source
        return {"_id": number, "status": 201 if created else 200, "result": "created" if created else "updated"}

    def close(self):
        self._server.shutdown()
        self._server.server_close()


def error(status, kind, reason):
    return {"error": {"type": kind, "reason": reason}, "status": status}
