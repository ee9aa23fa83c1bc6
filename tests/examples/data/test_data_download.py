"""The download of data sets, against a server in this process."""

import errno
import gzip
import hashlib
import http.server
import io
import json
import tarfile
import threading
import zipfile

import pytest

from examples.commands import data as command
from examples.data import download
from examples.data.report import DataError

CONTENT = b"".join(b"%d\tone\n" % number for number in range(5000))
DIGEST = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture
def server():
    """A server of one file; `ranges`, `length` and `status` change how it answers."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            options, asked = self.server, self.headers.get("Range")
            self.server.asked.append(asked)
            start = int(asked[6:-1]) if asked and options.ranges else 0
            self.send_response(options.status or (206 if start else 200))
            if start:
                self.send_header("Content-Range", f"bytes {start}-{len(CONTENT) - 1}/*")
            self.end_headers()
            self.wfile.write(options.content[start : options.length])

        def log_message(self, *arguments):
            """Stays silent."""

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as running:
        running.ranges, running.length, running.status = True, None, None
        running.content, running.asked = CONTENT, []
        running.url = f"http://127.0.0.1:{running.server_port}"
        threading.Thread(target=running.serve_forever, args=(0.01,), daemon=True).start()
        yield running
        running.shutdown()


@pytest.fixture
def tiny(monkeypatch):
    files = [download.Original("train.txt.gz", "in/train.txt", len(CONTENT), DIGEST)]
    monkeypatch.setattr(download, "list_originals", lambda name: files)


def test_a_whole_set_is_written_and_then_left_alone(server, tiny, tmp_path):
    folder = download.download("scan", tmp_path, base=server.url)
    assert gzip.decompress((folder / "train.txt.gz").read_bytes()) == CONTENT
    download.download("scan", tmp_path, base=server.url)
    assert len(server.asked) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["scan"]


@pytest.mark.parametrize("ranges", [True, False])
def test_a_truncated_download_goes_on(server, tiny, tmp_path, ranges):
    server.length, server.ranges = 1000, ranges
    with pytest.raises(DataError, match=r"ended after 1,000 of .* bytes. Run again"):
        download.download("scan", tmp_path, base=server.url)
    assert not (tmp_path / "scan").exists()
    server.length = None
    folder = download.download("scan", tmp_path, base=server.url)
    assert server.asked == [None, "bytes=1000-"]
    assert gzip.decompress((folder / "train.txt.gz").read_bytes()) == CONTENT


def test_another_content_is_refused(server, tiny, tmp_path):
    server.content = CONTENT[::-1]
    with pytest.raises(DataError, match=f"expected SHA-256 {DIGEST}. Received: "):
        download.download("scan", tmp_path, base=server.url)
    assert not (tmp_path / "scan").exists()
    server.content = CONTENT
    assert download.download("scan", tmp_path, base=server.url).exists()


def test_a_missing_file_names_its_url(server, tiny, tmp_path):
    server.status = 404
    with pytest.raises(DataError, match=r"in/train.txt: the server answered 404"):
        download.download("scan", tmp_path, base=server.url)


def test_without_a_connection_the_error_says_what_to_do(tiny, tmp_path, monkeypatch):
    monkeypatch.setattr(download, "get_url", lambda *_: "http://127.0.0.1:1/train.txt")
    arguments = type("Arguments", (), dict(name="scan", to=tmp_path, source=None, list=False))
    with pytest.raises(DataError, match=r"could not be fetched.*\.zip elsewhere.*--from"):
        command.run(arguments)


def test_a_full_disk_and_an_interrupted_conversion_lose_nothing(
    server, tiny, tmp_path, monkeypatch
):
    def fill(*arguments, **options):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(download.gzip, "compress", fill)
        with pytest.raises(OSError, match="No space left"):
            download.download("scan", tmp_path, base=server.url)
    assert not (tmp_path / "scan").exists()
    download.download("scan", tmp_path, base=server.url)
    assert len(server.asked) == 1  # the original was kept


def test_a_copy_by_hand_is_checked(tiny, tmp_path):
    with pytest.raises(DataError, match="is missing"):
        download.download("scan", tmp_path, tmp_path)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "train.txt").write_bytes(CONTENT)
    assert download.download("scan", tmp_path / "to", tmp_path).exists()
    (tmp_path / "in" / "train.txt").write_bytes(CONTENT[1:])
    with pytest.raises(DataError, match="not the expected file"):
        download.download("scan", tmp_path / "again", tmp_path)
    assert (tmp_path / "in" / "train.txt").exists()


def test_members_become_an_archive_and_a_digest_may_be_of_the_content(
    server, tmp_path, monkeypatch
):
    server.content = gzip.compress(CONTENT)
    files = [
        download.Original(f"all.tar.xz/{name}", f"{name}.gz", None, f"content:{DIGEST}")
        for name in ("en/a.txt", "en/b.txt")
    ]
    monkeypatch.setattr(download, "list_originals", lambda name: files)
    folder = download.download("babi", tmp_path, base=server.url)
    assert [path.name for path in folder.iterdir()] == ["all.tar.xz"]
    with tarfile.open(folder / "all.tar.xz") as archive:
        members = {each.name: archive.extractfile(each).read() for each in archive if each.isfile()}
    assert members == {"en/a.txt": CONTENT, "en/b.txt": CONTENT}
    server.length = len(server.content) // 2
    with pytest.raises(DataError, match=f"content:{DIGEST}. Received: no whole gzip file"):
        download.download("mnist", tmp_path, base=server.url)
    assert not (tmp_path / "mnist").exists()


def test_cmudict_holds_out_words_by_their_digest():
    content = b"".join(b"W%d\tA\n" % number for number in range(400))
    train = download.split_cmudict("train.tsv.gz", content).splitlines()
    held_out = download.split_cmudict("dev.tsv.gz", content).splitlines()
    assert held_out and sorted(train + held_out) == sorted(content.splitlines())
    assert all(int(hashlib.sha1(line[:-2]).hexdigest(), 16) % 40 == 0 for line in held_out)


def test_reviews_of_the_last_fold_are_left_out():
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name in ("neg/cv900_1", "pos/cv100_2", "neg/cv000_3"):
            archive.writestr(f"movie_reviews/{name}.txt", "a film . \n\ngood .\n")
    lines = download.split_reviews("x.jsonl.gz", content.getvalue()).decode().splitlines()
    first, second = map(json.loads, lines)
    assert first == {
        "id": "neg/cv000",
        "fold": 0,
        "label": "neg",
        "sentences": ["a film .", "good ."],
    }
    assert (second["id"], second["fold"]) == ("pos/cv100", 1)


def test_each_set_has_files_with_digests():
    for name in download.SETS:
        files = download.list_originals(name)
        digests = [file.sha256.removeprefix(download.CONTENT) for file in files]
        assert files and all(len(digest) == 64 for digest in digests)
        assert all(file.size or file.sha256.startswith(download.CONTENT) for file in files)
