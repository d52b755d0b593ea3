"""A small schema registry in this process, over HTTP: schemas by id and by subject; answers and a password can be set."""

import base64
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Registry:
    """What the server keeps, and what it was asked."""

    def __init__(self):
        self.schemas, self.subjects, self.asked, self.answers = {}, {}, [], []
        self.password = self.authorization = None
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01})
        self.thread.start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join(30)

    def answer(self, method, path, document):
        if self.answers:
            return self.answers.pop(0)
        match method, path.strip("/").split("/"):
            case "GET", ["schemas", "ids", number] if int(number) in self.schemas:
                return 200, {"schema": self.schemas[int(number)]}
            case "POST", ["subjects", subject, "versions"]:
                number = next(
                    (n for n, text in self.schemas.items() if text == document["schema"]), len(self.schemas) + 1
                )
                self.schemas[number] = document["schema"]
                self.subjects[subject] = number
                return 200, {"id": number}
            case "GET", ["subjects", subject, "versions", "latest"] if subject in self.subjects:
                return 200, {"id": self.subjects[subject], "schema": self.schemas[self.subjects[subject]]}
        return 404, {"error_code": 40403, "message": "not found"}

    def _handler(registry):
        class Handler(BaseHTTPRequestHandler):
            def _do(self):
                size = int(self.headers.get("Content-Length") or 0)
                document = json.loads(self.rfile.read(size)) if size else None
                registry.asked.append(f"{self.command} {self.path}")
                status, answer = registry.answer(self.command, self.path, document)
                given = self.headers.get("Authorization")
                wanted = registry.authorization
                if registry.password is not None:
                    wanted = "Basic " + base64.b64encode(registry.password.encode()).decode()
                if wanted is not None and given != wanted:
                    status, answer = 401, {"message": "who are you?"}
                body = json.dumps(answer).encode()
                self.send_response(status)
                if status == 302:
                    self.send_header("Location", "http://127.0.0.1:9/elsewhere")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_GET = do_POST = _do

            def log_message(self, *args):
                pass

        return Handler
