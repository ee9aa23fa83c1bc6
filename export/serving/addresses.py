"""Addresses to listen on, and what is wrong with one: the host or the port."""

import errno
import socket


def listen(protocol: str, host: str, port: int) -> socket.socket:
    """Returns a socket that listens.

    Args:
        protocol: What will be spoken there, for the error.
        host: A name or an address of this machine, IPv4 or IPv6.
        port: Port, 0 for a free one.

    Raises:
        OSError: If that is impossible, with whether host or port is the reason.
    """
    shown = f"{protocol} cannot listen on {join(host, port)}"
    try:
        family, _, _, _, address = socket.getaddrinfo(
            host.removeprefix("[").removesuffix("]"), port, type=socket.SOCK_STREAM
        )[0]
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or "it is no name"
        raise OSError(f"{shown}: the host {host!r} cannot be resolved: {reason}") from None
    # With the protocol named, or asyncio would leave Nagle's algorithm on: 40 ms an answer.
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
        raise OSError(f"{shown}: {_reason(error, host, port)}") from error
    return listener


def join(host: str, port: int) -> str:
    """Returns host and port as a URL has them.

    >>> join("127.0.0.1", 8500), join("::1", 8500)
    ('127.0.0.1:8500', '[::1]:8500')
    """
    return f"[{host}]:{port}" if ":" in host and not host.startswith("[") else f"{host}:{port}"


def _reason(error, host, port):
    reasons = {
        errno.EADDRINUSE: f"port {port} is taken by another program",
        errno.EACCES: f"port {port} needs the rights of an administrator; choose one above 1023",
        errno.EADDRNOTAVAIL: f"the host {host!r} is no address of this machine",
    }
    return reasons.get(error.errno, error.strerror)
