"""HTTP/1.1 as uvicorn and httptools read it, with bounds on all that is not a body."""

import json

import httptools
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

HEAD_SECONDS = 10.0
MAX_HEAD_BYTES = 2**16
# After a response that precedes the end of its request, time for the client to read it.
LINGER_SECONDS = 2.0
MAX_DISCARDED_BYTES = 2**26


class BoundedProtocol(HttpToolsProtocol):
    """A connection with limits on the time and the size of everything but bodies.

    httptools refuses what could be read in two ways: both Content-Length and
    Transfer-Encoding, bare line feeds. This class adds

    * a deadline for the request line and headers, also for a connection that sends nothing;
    * a bound on the length of the request line, headers and trailers, and one on the bytes
      between the chunks of a body;
    * the answer to a client that closes its half after a whole request;
    * an end of the connection, after an answer to a request whose body has not arrived as a
      whole, that lets the client read the answer: what still arrives is discarded for a while;
    * `scope["extensions"]["abort"]`, which drops a client that does not read.

    Offers of an upgrade are ignored.

    Args:
        max_request_bytes: Longest body; chunks may have as many bytes around them.
        body_seconds: How long the rest of a body that nobody reads is discarded.
        **options: Those of `HttpToolsProtocol`.
    """

    head_seconds = HEAD_SECONDS
    _head_timer = None
    _linger_timer = None
    _is_lingering = False
    _is_message_complete = True
    _keep_alive = True
    _refusal = None
    _num_unparsed = 0  # bytes since the last one of a body
    _num_framing = 0  # bytes of the request that are not its body's
    _num_head = 0  # bytes of the parsed headers and trailers
    _num_discarded = 0

    def __init__(self, *, max_request_bytes: int, body_seconds: float, **options):
        super().__init__(**options)
        self._max_framing = max_request_bytes + MAX_HEAD_BYTES
        self._body_seconds = body_seconds

    def connection_made(self, transport):
        super().connection_made(transport)
        self._start_head_timer()

    def connection_lost(self, error):
        self._cancel_head_timer()
        if self._linger_timer is not None:
            self._linger_timer.cancel()
        super().connection_lost(error)

    def data_received(self, data):
        if self._is_lingering:
            self._num_discarded += len(data)
            if self._num_discarded > MAX_DISCARDED_BYTES:
                self.transport.abort()
            return
        self._unset_keepalive_if_required()
        self._num_unparsed += len(data)
        self._num_framing += len(data)
        try:
            self._parse(data)
        except httptools.HttpParserError:
            self._refuse(*self._refusal or (400, "Invalid HTTP request received."))
            return
        if self._num_unparsed > MAX_HEAD_BYTES:
            self._refuse(431, f"Headers may have up to {MAX_HEAD_BYTES:,} bytes.")
            return
        if self._num_framing > self._max_framing:
            self._refuse(413, "The request's chunks are too small.")
            return
        if self.transport.is_closing():
            self._cancel_head_timer()
            return
        is_idle = self.cycle is None or self.cycle.response_complete
        if is_idle and self._head_timer is None:
            self._start_head_timer()

    def eof_received(self):
        """Keeps the other half open while a complete request is being answered."""
        if self._is_lingering:
            return None
        is_responding = self.cycle is not None and not self.cycle.response_complete
        if is_responding and not self.cycle.more_body:
            self.cycle.keep_alive = False
            return True

    def shutdown(self):
        self._keep_alive = False
        super().shutdown()

    def on_message_begin(self):
        super().on_message_begin()
        self.scope["extensions"] = {"abort": self.transport.abort}
        self._is_message_complete = False
        self._num_head = 0

    def on_url(self, url):
        self._count_head(len(url))
        super().on_url(url)

    def on_header(self, name, value):
        self._count_head(len(name) + len(value) + 4)
        super().on_header(name, value)

    def on_headers_complete(self):
        self._check_head()
        if self.parser.should_upgrade():
            return  # `_parse` has them parsed again
        self._cancel_head_timer()
        super().on_headers_complete()
        cycle = self.cycle
        cycle.transport = _CycleTransport(self)
        # An answer that begins before the body has ended is the connection's last one.
        self._keep_alive, cycle.keep_alive = cycle.keep_alive, False

    def on_body(self, body):
        self._num_unparsed = 0
        self._num_framing -= len(body)
        super().on_body(body)

    def on_message_complete(self):
        if self.parser.should_upgrade():
            return
        self._is_message_complete = True
        self._num_unparsed = self._num_framing = 0
        if not self.cycle.response_started:
            self.cycle.keep_alive = self._keep_alive
        super().on_message_complete()

    def on_response_complete(self):
        if self._is_lingering:
            self.server_state.total_requests += 1
        else:
            super().on_response_complete()

    def close_after_answer(self):
        """Closes the connection behind what has been written."""
        if self._is_message_complete:
            self.transport.close()
        else:
            self._linger(self._body_seconds)

    def _parse(self, data):
        """Parses bytes; parses a head that offers an upgrade again, without the offer.

        httptools takes all that follows such a head for data of a different protocol.
        """
        data = memoryview(data)
        while True:
            try:
                self.parser.feed_data(data)
                return
            except httptools.HttpParserUpgrade as upgrade:
                data = data[upgrade.args[0] :]
            head = self._write_head_without_upgrade()
            self.parser = httptools.HttpRequestParser(self)
            self.parser.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn
            self.parser.feed_data(head)

    def _write_head_without_upgrade(self):
        line = b"%s %s HTTP/%s\r\n"
        version = self.parser.get_http_version().encode()
        parts = [line % (self.parser.get_method(), self.url, version)]
        for name, value in self.headers:
            if name == b"connection":
                options = [option.strip() for option in value.split(b",")]
                value = b", ".join(option for option in options if option.lower() != b"upgrade")
            if name != b"upgrade":
                parts.append(b"%s: %s\r\n" % (name, value))
        return b"".join([*parts, b"\r\n"])

    def _check_head(self):
        """Refuses heads that httptools lets pass: of a different version, or ambiguous ones."""
        version = self.parser.get_http_version()
        hosts = [value for name, value in self.headers if name == b"host"]
        codings = [value.lower() for name, value in self.headers if name == b"transfer-encoding"]
        if version not in ("1.0", "1.1"):
            self._reject(400, "Requests of HTTP/1.0 and HTTP/1.1 are answered, no others.")
        if len(hosts) > 1 or (version == "1.1" and not hosts):
            self._reject(400, f"A request has one Host header. Received: {len(hosts)}")
        if self.parser.get_method() == b"CONNECT":
            self._reject(501, "CONNECT is not served here.")
        if codings not in ([], [b"chunked"]):
            status = 501 if codings[-1].endswith(b"chunked") else 400  # its end is not clear
            self._reject(status, "Transfer-Encoding may be chunked, nothing else.")

    def _count_head(self, size):
        self._num_head += size
        if self._num_head > MAX_HEAD_BYTES:
            self._reject(431, f"Headers may have up to {MAX_HEAD_BYTES:,} bytes.")

    def _reject(self, status, message):
        """Ends a callback of the parser; `data_received` answers."""
        self._refusal = (status, message)
        raise httptools.HttpParserError(message)

    def _start_head_timer(self):
        self._head_timer = self.loop.call_later(self.head_seconds, self._handle_late_head)

    def _cancel_head_timer(self):
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _handle_late_head(self):
        if self._num_unparsed:
            self._refuse(408, "The request's headers did not arrive in time.")
        else:
            self.transport.close()

    def _refuse(self, status, message):
        """Responds and closes; only closes if an earlier request is waiting for its response."""
        self._cancel_head_timer()
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
            self._linger(LINGER_SECONDS)
        else:
            self.transport.close()
        if cycle is not None:
            cycle.disconnected = True
            cycle.message_event.set()

    def _linger(self, seconds):
        """Ends this half, and discards what arrives until the client ends its own.

        A socket that is closed while bytes arrive resets the connection, and the client loses
        an answer that it has not read yet.
        """
        if self._is_lingering or self.transport.is_closing():
            return
        self._is_lingering = True
        self._cancel_head_timer()
        self.transport.write_eof()
        self.flow.resume_reading()
        self._linger_timer = self.loop.call_later(seconds, self.transport.abort)


class _CycleTransport:
    """The transport as uvicorn uses it for an answer, with the protocol's end of a connection."""

    def __init__(self, protocol):
        self._transport = protocol.transport
        self.write, self.is_closing = self._transport.write, self._transport.is_closing
        self.close = protocol.close_after_answer
