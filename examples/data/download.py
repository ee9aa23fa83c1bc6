"""Public data sets, fetched from their authors' repositories, checked and converted.

`SETS` describes each set; `originals.tsv` lists its files, a row each: set, converted file,
original path, bytes and the SHA-256 digest that was computed on the original. Of one file, which
was too large to be at hand, the digest `content:...` is that of the decompressed content, and its
bytes are not known. A converted file `NAME.tar.xz/MEMBER` becomes a member of an archive.
"""

import csv
import dataclasses
import gzip
import hashlib
import http.client
import io
import json
import os
import pathlib
import shutil
import tarfile
import urllib.error
import urllib.request
import zipfile
import zlib
from collections.abc import Callable

from examples.data.report import DataError

ORIGINALS = pathlib.Path(__file__).with_name("originals.tsv")
RAW = "https://raw.githubusercontent.com"
BLOCK = 1 << 16
CONTENT = "content:"


@dataclasses.dataclass(frozen=True)
class Original:
    """A file of the authors' repository, and the file that is made from it."""

    target: str
    path: str
    size: int | None
    sha256: str


@dataclasses.dataclass(frozen=True)
class DataSet:
    """A data set: where it comes from, under which terms, and how it is converted.

    Args:
        repository: `OWNER/NAME` on GitHub.
        commit: The commit that every file is taken from.
        license: The terms, as the authors state them.
        citation: The paper to cite.
        convert: Takes the name of a converted file and the original's bytes, and returns
            the text of the converted file.
    """

    repository: str
    commit: str
    license: str
    citation: str
    convert: Callable[[str, bytes], bytes] = lambda target, content: content


def split_cmudict(target: str, content: bytes) -> bytes:
    """Returns the lines of `target`: words whose SHA-1 is divisible by 40 are held out."""
    if target == "test.tsv.gz":
        return content
    lines = content.splitlines(keepends=True)
    return b"".join(line for line in lines if _is_held_out(line) == (target == "dev.tsv.gz"))


def _is_held_out(line):
    return int(hashlib.sha1(line.split(b"\t")[0]).hexdigest(), 16) % 40 == 0


def split_reviews(target: str, content: bytes) -> bytes:
    """Returns the authors' text, or folds 0 to 8 of the archive: a JSON object per review."""
    archive = zipfile.ZipFile(io.BytesIO(content))
    if target == "README.orig":
        return archive.read("movie_reviews/README")
    reviews = []
    for path in archive.namelist():
        if path.endswith(".txt"):
            label, file = path.split("/")[1:]
            fold, name = int(file[2]), f"{label}/{file[:5]}"
            lines = map(str.strip, archive.read(path).decode().split("\n"))
            record = {"id": name, "fold": fold, "label": label, "sentences": [*filter(None, lines)]}
            reviews.append((fold, name, json.dumps(record, ensure_ascii=False) + "\n"))
    return "".join(line for fold, _, line in sorted(reviews) if fold < 9).encode()


SETS = {
    "multi30k": DataSet(
        "multi30k/dataset",
        "a3d2e0d26b56f3846f66a952536ffed4e401d05a",
        "research and education only, non-commercial",
        "Elliott et al. 2016, Multi30K: Multilingual English-German Image Descriptions",
    ),
    "g2p_cmudict": DataSet(
        "AdolfVonKleist/Phonetisaurus",
        "f08d3dfb10b8d619e665a9581d2a327bcc2504f7",
        "BSD (CMUdict, Carnegie Mellon University)",
        "The CMU Pronouncing Dictionary; the split of the PRONALSYL challenge 2007",
        split_cmudict,
    ),
    "g2p_sigmorphon2020": DataSet(
        "sigmorphon/2020",
        "3d9bb3658b6a964ccd127e2a6781665262516bf6",
        "CC BY-SA 3.0 (from Wiktionary)",
        "Gorman et al. 2020, The SIGMORPHON 2020 Shared Task on Grapheme-to-Phoneme Conversion",
    ),
    "g2p_sigmorphon2021": DataSet(
        "sigmorphon/2021-task1",
        "821bcdece5a47820872215969f275004b0abe80c",
        "CC BY-SA 3.0 (from Wiktionary)",
        "Ashby et al. 2021, Results of the Second SIGMORPHON Shared Task on G2P Conversion",
    ),
    "inflection_conll2017": DataSet(
        "sigmorphon/conll2017",
        "519bb1677a7c747b3863d37069ffd395062288d8",
        "CC BY-SA 3.0 (UniMorph, from Wiktionary)",
        "Cotterell et al. 2017, CoNLL-SIGMORPHON 2017 Shared Task",
    ),
    "movie_reviews": DataSet(
        "nltk/nltk_data",
        "5db857e6f7df11eabb5e5665836db9ec8df07e28",
        "CC BY 4.0",
        "Pang & Lee 2004, A Sentimental Education (Sentiment Polarity Dataset 2.0)",
        split_reviews,
    ),
    "babi": DataSet(
        "patrickachase/dynamic-memory-networks",
        "0bf9e2c84ba500cecafe2c27519c500a65154a93",
        "CC BY 3.0 (Facebook, Inc.)",
        "Weston et al. 2015, Towards AI-Complete Question Answering",
    ),
    "mnist": DataSet(
        "fgnt/mnist",
        "ae608a02b796c9ee908c082585a5f006fe05258e",
        "CC BY-SA 3.0 (Yann LeCun, Corinna Cortes)",
        "LeCun et al. 1998, Gradient-Based Learning Applied to Document Recognition",
    ),
    "scan": DataSet(
        "brendenlake/SCAN",
        "c4b756cbc010d75c912f16c42c8f15dc6b7e6c8f",
        "BSD",
        "Lake & Baroni 2018, Generalization without Systematicity",
    ),
}


def list_originals(name: str) -> list[Original]:
    """Returns the files of a data set."""
    with open(ORIGINALS, encoding="utf-8", newline="") as file:
        rows = [row[1:] for row in csv.reader(file, delimiter="\t") if row[0] == name]
    return [
        Original(target, path, int(size) if size else None, digest)
        for target, path, size, digest in rows
    ]


def get_url(name: str, path: str, base: str = RAW) -> str:
    """Returns where a file of a data set is fetched from."""
    return f"{base}/{SETS[name].repository}/{SETS[name].commit}/{path}"


def fetch_file(url: str, path: pathlib.Path, size: int | None, sha256: str) -> None:
    """Fetches `url` into `path`, going on from an earlier part, and checks its digest.

    Raises:
        DataError: If the server cannot be reached or refuses, or the content is not the
            expected one. A part that can be continued is kept.
    """
    if path.exists() and _digest(path, sha256) == sha256:
        return
    part = path.with_name(path.name + ".part")
    part.parent.mkdir(parents=True, exist_ok=True)
    have = part.stat().st_size if part.exists() else 0
    if size is None or have >= size:
        have = 0
    request = urllib.request.Request(url, headers={"Range": f"bytes={have}-"} if have else {})
    try:
        with urllib.request.urlopen(request, timeout=60) as response:
            continues = response.status == 206 and (
                response.headers.get("Content-Range", "").startswith(f"bytes {have}-")
            )
            with open(part, "ab" if continues else "wb") as file:
                shutil.copyfileobj(response, file, BLOCK)
    except urllib.error.HTTPError as error:
        raise DataError(f"{url}: the server answered {error.code} {error.reason}.") from error
    except (
        urllib.error.URLError,
        http.client.HTTPException,
        ConnectionError,
        TimeoutError,
    ) as error:
        reason = getattr(error, "reason", error)
        raise DataError(f"{url} could not be fetched: {reason}.") from error
    received = part.stat().st_size
    if size is not None and received < size:
        raise DataError(f"{url} ended after {received:,} of {size:,} bytes. Run again to go on.")
    _check_digest(part, sha256, url)
    os.replace(part, path)


def _check_digest(path, sha256, source):
    found = _digest(path, sha256)
    if found != sha256:
        if path.name.endswith(".part"):
            path.unlink()
        raise DataError(
            f"{source} is not the expected file: expected SHA-256 {sha256}. Received: {found}. "
            "Fetch it again."
        )


def _digest(path, expected):
    """Returns the digest of a file, of its decompressed content if that is what is expected."""
    if not expected.startswith(CONTENT):
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    try:
        return CONTENT + hashlib.sha256(gzip.decompress(path.read_bytes())).hexdigest()
    except (OSError, EOFError, zlib.error) as error:
        return f"no whole gzip file ({error})"


def download(name: str, folder: str, source: str | None = None, base: str = RAW) -> pathlib.Path:
    """Writes the data set `name` into `folder/name`, which appears only when it is whole.

    Args:
        name: A key of `SETS`.
        folder: The folder of all data sets.
        source: A folder that holds the authors' repository, instead of fetching files.
        base: The server.

    Returns:
        The folder of the data set; one that exists already is left as it is.

    Raises:
        DataError: If a file cannot be fetched or is not the expected one.
    """
    final = pathlib.Path(folder, name)
    if final.exists():
        return final
    work = final.with_name(f".{name}.download")
    converted = work / "converted"
    shutil.rmtree(converted, ignore_errors=True)
    for original in list_originals(name):
        if source:
            path = pathlib.Path(source, original.path)
            if not path.is_file():
                raise DataError(f"{path} is missing. Name the root folder of the repository.")
            _check_digest(path, original.sha256, path)
        else:
            path = work / "originals" / original.path
            fetch_file(get_url(name, original.path, base), path, original.size, original.sha256)
        content = path.read_bytes()
        if path.suffix == ".gz":
            content = gzip.decompress(content)
        content = SETS[name].convert(original.target, content)
        target = converted / original.target
        target.parent.mkdir(parents=True, exist_ok=True)
        compressed = target.suffix == ".gz"
        target.write_bytes(gzip.compress(content, mtime=0) if compressed else content)
    for archive in converted.glob("*.tar.xz"):
        _pack(archive)
    os.replace(converted, final)
    shutil.rmtree(work)
    return final


def _pack(folder):
    """Makes an archive of a folder, in its place."""
    members = folder.with_suffix(".members")
    os.replace(folder, members)
    with tarfile.open(folder, "w:xz") as archive:
        for path in sorted(members.iterdir()):
            archive.add(path, path.name)
    shutil.rmtree(members)
