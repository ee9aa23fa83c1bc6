"""The page at `/` to try the models: one HTML document that asks the REST interface.

It has the scripts of `keras_attention.plotting`'s explorer and its own in it, and loads nothing.
Its policy allows these scripts and styles alone, by their hashes, and requests to this server.
"""

import base64
import hashlib
import importlib.resources
import ipaddress
import json
import string
from collections.abc import Iterable

EXPLORER = ("elements.js", "token_pair.js", "attention.js", "search.js")
SCRIPTS = ("signatures.js", "fields.js", "snippets.js", "answers.js", "start.js")


class Playground:
    """The page and its headers.

    Args:
        models: Names of the models.
        grpc_port: gRPC port of the server, None without gRPC.
    """

    def __init__(self, models: Iterable[str], grpc_port: int | None):
        explorer = importlib.resources.files("keras_attention.plotting") / "explorer"
        own = importlib.resources.files("keras_attention.export.serving") / "playground"
        files = [explorer / name for name in EXPLORER] + [own / name for name in SCRIPTS]
        script = "\n".join(file.read_text("utf-8") for file in files)
        style = "\n".join((folder / "style.css").read_text("utf-8") for folder in (explorer, own))
        policy = (
            f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; "
            "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
            "frame-ancestors 'none'"
        )
        data = json.dumps({"models": list(models), "grpcPort": grpc_port})
        template = string.Template((own / "page.html").read_text("utf-8"))
        page = template.substitute(
            style=style, script=script, data=data.replace("<", "\\u003c")
        )  # so that no name ends the element
        self.body = page.encode("utf-8")
        self.headers = [
            (b"content-type", b"text/html; charset=utf-8"),
            (b"content-security-policy", policy.encode()),
            (b"x-content-type-options", b"nosniff"),
            (b"referrer-policy", b"no-referrer"),
            (b"cache-control", b"no-store"),
        ]


def is_loopback(address: str) -> bool:
    """Returns whether an address can be reached from its own machine alone.

    >>> is_loopback("127.0.0.1"), is_loopback("::1"), is_loopback("0.0.0.0")
    (True, True, False)
    """
    found = ipaddress.ip_address(address.partition("%")[0])
    return (getattr(found, "ipv4_mapped", None) or found).is_loopback


def _hash(text):
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return f"sha256-{base64.b64encode(digest).decode('ascii')}"
