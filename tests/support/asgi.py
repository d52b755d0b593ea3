"""Requests to an ASGI application in this process, without a server."""

import asyncio
import json


class Answer:
    def __init__(self, status, headers, body):
        self.status = status
        self.headers = headers
        self.body = body

    @property
    def json(self):
        return json.loads(self.body)


class Api:
    """An application as its clients see it."""

    def __init__(self, app, host="127.0.0.1:8081"):
        self.app = app
        self.host = host

    def request(self, method, path, body=None, headers=None):
        return asyncio.run(self._request(method, path, body, headers or {}))

    def get(self, path, **headers):
        return self.request("GET", path, None, headers)

    def post(self, path, data=None, **headers):
        body = b"" if data is None else data if isinstance(data, bytes) else json.dumps(data).encode()
        return self.request("POST", path, body, {"content-type": "application/json"} | headers)

    def patch(self, path, **headers):
        return self.request("PATCH", path, b"", headers)

    async def _request(self, method, path, body, headers):
        route, _, query = path.partition("?")
        given = {"host": self.host} | headers
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": route,
            "raw_path": route.encode(),
            "query_string": query.encode(),
            "root_path": "",
            "headers": [(name.replace("_", "-").encode(), value.encode()) for name, value in given.items()],
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 8081),
        }
        sent = []

        async def receive():
            return {"type": "http.request", "body": body or b"", "more_body": False}

        async def send(message):
            sent.append(message)

        await self.app(scope, receive, send)
        start, parts = sent[0], sent[1:]
        found = {name.decode(): value.decode() for name, value in start["headers"]}
        return Answer(start["status"], found, b"".join(part.get("body", b"") for part in parts))
