"""HTTP/1.1 as uvicorn and httptools read it, with bounds on what comes before a body."""

import json

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

HEAD_SECONDS = 10.0
MAX_HEAD_BYTES = 2**16


class BoundedProtocol(HttpToolsProtocol):
    """A connection whose requests begin in time, and end in an answer.

    httptools refuses what could be read in two ways: both Content-Length and
    Transfer-Encoding, bare line feeds. This class adds

    * a deadline for the request line and headers, also for a connection that sends nothing and
      for one that sends a body nobody reads, and a bound on their length;
    * the answer to a client that closes its half after a whole request;
    * `scope["extensions"]["abort"]`, which drops a client that does not read.
    """

    head_seconds = HEAD_SECONDS
    _head_timer = None
    _head_bytes = 0

    def connection_made(self, transport):
        super().connection_made(transport)
        self._await_head()

    def connection_lost(self, error):
        self._head_arrived()
        super().connection_lost(error)

    def data_received(self, data):
        super().data_received(data)
        if self.transport.is_closing():
            self._head_arrived()
            return
        is_idle = self.cycle is None or self.cycle.response_complete
        if is_idle and self._head_timer is None:
            self._await_head()
        if self._head_timer is not None:
            self._head_bytes += len(data)
            if self._head_bytes > MAX_HEAD_BYTES:
                self._refuse(431, f"Headers may have up to {MAX_HEAD_BYTES:,} bytes.")

    def eof_received(self):
        """Keeps the other half open while an answer to a whole request is under way."""
        waiting = self.cycle is not None and not self.cycle.response_complete
        if waiting and not self.cycle.more_body:
            self.cycle.keep_alive = False
            return True

    def on_message_begin(self):
        super().on_message_begin()
        self.scope["extensions"] = {"abort": self.transport.abort}

    def on_headers_complete(self):
        self._head_arrived()
        super().on_headers_complete()

    def send_400_response(self, msg):
        self._refuse(400, msg)

    def _await_head(self):
        self._head_bytes = 0
        self._head_timer = self.loop.call_later(self.head_seconds, self._head_is_late)

    def _head_arrived(self):
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _head_is_late(self):
        if self._head_bytes:
            self._refuse(408, "The request's headers did not arrive in time.")
        else:
            self.transport.close()

    def _refuse(self, status, message):
        """Answers and closes; only closes where an earlier request has no answer yet."""
        self._head_arrived()
        cycle = self.cycle
        if (
            cycle is None
            or cycle.response_complete
            or not (cycle.response_started or self.pipeline)
        ):
            body = json.dumps({"error": message}).encode()
            head = b"content-type: application/json\r\nconnection: close\r\n"
            length = b"content-length: %d\r\n\r\n" % len(body)
            self.transport.write(STATUS_LINE[status] + head + length + body)
        self.transport.close()
        if cycle is not None:
            cycle.disconnected = True
            cycle.message_event.set()
