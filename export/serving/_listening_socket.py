"""Listens on an address; errors report whether the host or the port is the reason."""

import errno
import socket


def listen(protocol: str, host: str, port: int) -> socket.socket:
    """Returns a listening socket.

    Args:
        protocol: Name of the protocol, for the error message.
        host: A name or an address of this machine, IPv4 or IPv6.
        port: Port, 0 for a free one.

    Raises:
        OSError: If the address is not available; the message names the host or the port.
    """
    shown = f"{protocol} cannot listen on {format_address(host, port)}"
    try:
        family, _, _, _, address = socket.getaddrinfo(
            host.removeprefix("[").removesuffix("]"), port, type=socket.SOCK_STREAM
        )[0]
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not a valid name"
        raise OSError(f"{shown}: the host {host!r} cannot be resolved: {reason}") from None
    # Name the protocol: otherwise asyncio keeps Nagle's algorithm on, 40 ms per response.
    try:
        listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    except OSError as error:
        raise OSError(f"{shown}: {error.strerror}") from error
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(512)
    except OSError as error:
        listener.close()
        raise OSError(f"{shown}: {_describe_error(error, host, port)}") from error
    return listener


def format_address(host: str, port: int) -> str:
    """Returns `host:port` as in a URL.

    >>> format_address("127.0.0.1", 8500), format_address("::1", 8500)
    ('127.0.0.1:8500', '[::1]:8500')
    """
    return f"[{host}]:{port}" if ":" in host and not host.startswith("[") else f"{host}:{port}"


def _describe_error(error, host, port):
    reasons = {
        errno.EADDRINUSE: f"another program uses port {port}",
        errno.EACCES: f"port {port} requires administrator rights; choose one above 1023",
        errno.EADDRNOTAVAIL: f"the host {host!r} is not an address of this machine",
    }
    return reasons.get(error.errno, error.strerror)
