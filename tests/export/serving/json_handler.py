"""The part that small HTTP servers of these tests share."""

import http.server
import json


class JSONHandler(http.server.BaseHTTPRequestHandler):
    """A handler that answers with JSON and logs nothing."""

    protocol_version = "HTTP/1.1"

    def respond(self, status, answer):
        body = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments):
        pass
