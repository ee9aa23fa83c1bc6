"""Wrong arguments, versions and failures of the exporter and its command, without tracing."""

import dataclasses
import errno
import functools
import math
import os
import signal
import subprocess
import sys

import pytest
import tensorflow as tf
from toy_translator import ToyDecoder, toy_translator

from examples.models import transformer
from keras_attention._utils.flat_beams import gather_beams
from keras_attention.export import (
    SearchOptions,
    XLABuckets,
    _search_memory,
    _version_writer,
    export_translator,
    runs,
    tokenizers,
    translator_export,
    versions,
)
from keras_attention.export import __main__ as command
from keras_attention.export._pipeline import TranslationPipeline
from keras_attention.export.search_options import resolve_search_options
from keras_attention.search import (
    BeamOptions,
    Constraints,
    CoveragePenalty,
    GNMTLengthPenalty,
    SpecialIds,
)


@pytest.fixture(scope="module")
def pieces():
    source = tokenizers.WordTokenizer(["a", "b", "c"])
    target = tokenizers.CharacterTokenizer(["x", "y"])
    return toy_translator(7, 6), source, target


@pytest.fixture
def quick(monkeypatch):
    """Saving writes a marker instead of tracing; what was to be saved is recorded."""
    calls = []

    def save(module, path, signatures, options):
        calls.append((module, signatures))
        with open(os.path.join(path, "saved_model.pb"), "wb") as file:
            file.write(b"graph")

    monkeypatch.setattr(_version_writer.tf.saved_model, "save", save)
    monkeypatch.setattr(_version_writer, "validate_export", lambda path: [])
    monkeypatch.setattr(
        _version_writer._warmup_requests, "replay_requests", lambda path, requests: []
    )
    monkeypatch.setattr(
        _version_writer._model_card, "complete_card", lambda card, *_: card | {"signatures": {}}
    )
    return calls


def make_search(**fields):
    """Returns `SearchOptions` from its own fields, those of its constraints and its options."""
    parts = {}
    for name, kind in (("constraints", Constraints), ("options", BeamOptions)):
        own = {field.name for field in dataclasses.fields(kind)} & set(fields)
        parts[name] = kind(**{field: fields.pop(field) for field in own})
    return SearchOptions(**fields, **parts)


def export(pieces, base, version=None, name=None, xla=None, **fields):
    model, source, target = pieces
    sides = {"source": source, "target": target}
    search = make_search(**fields)
    return export_translator(
        model, base, **sides, version=version, name=name, search=search, xla=xla
    )


def test_versions_count_on_from_the_highest(pieces, tmp_path, quick):
    assert export(pieces, tmp_path / "deep" / "base") == tmp_path / "deep" / "base" / "1"
    (tmp_path / "007").mkdir()
    (tmp_path / "latest").mkdir()
    (tmp_path / ".9.x.part").mkdir()
    assert export(pieces, tmp_path) == tmp_path / "8"
    assert export(pieces, tmp_path, version=5) == tmp_path / "5"
    assert export(pieces, tmp_path).name == "9"
    assert versions.find_versions(tmp_path).keys() == {5, 7, 8, 9}


def test_an_existing_version_is_refused_and_kept(pieces, tmp_path, quick):
    path = export(pieces, tmp_path, version=3)
    (tmp_path / "007").mkdir()
    for version in (3, 7):
        with pytest.raises(FileExistsError, match="exists already.*for the next one, 8"):
            export(pieces, tmp_path, version=version)
    assert (path / "saved_model.pb").read_bytes() == b"graph"
    assert len(quick) == 1


def test_a_base_that_is_a_file_is_refused(pieces, tmp_path, quick):
    (tmp_path / "base").touch()
    with pytest.raises(FileExistsError, match="base is a file"):
        export(pieces, tmp_path / "base")


def test_names_that_no_server_reads_as_a_version_do_not_count(pieces, tmp_path, quick):
    for name in ("20261005123456789012", f"{2**63}", f"-{2**63 + 1}"):
        (tmp_path / name).mkdir()
    assert versions.find_versions(tmp_path) == {}
    assert export(pieces, tmp_path).name == "1"


def test_after_the_largest_version_there_is_no_next_one(pieces, tmp_path, quick):
    assert export(pieces, tmp_path, version=2**63 - 1).name == "9223372036854775807"
    with pytest.raises(ValueError, match="none comes after the largest.*Received: none, beside"):
        export(pieces, tmp_path)
    with pytest.raises(FileExistsError, match=r"exists already. Choose another version\.$"):
        export(pieces, tmp_path, version=2**63 - 1)
    with pytest.raises(ValueError, match=f"at most {2**63 - 1}. Received: {2**63}"):
        export(pieces, tmp_path, version=2**63)
    assert export(pieces, tmp_path, version=5).name == "5"


def test_of_two_exports_at_once_the_later_takes_the_next_number(
    pieces, tmp_path, quick, monkeypatch
):
    def another_export(path, requests):
        monkeypatch.setattr(
            _version_writer._warmup_requests, "replay_requests", lambda path, requests: []
        )
        export(pieces, tmp_path)

    monkeypatch.setattr(_version_writer._warmup_requests, "replay_requests", another_export)
    assert export(pieces, tmp_path) == tmp_path / "2"
    assert sorted(os.listdir(tmp_path)) == ["1", "2"]
    assert (tmp_path / "2" / "saved_model.pb").read_bytes() == b"graph"
    monkeypatch.setattr(_version_writer._warmup_requests, "replay_requests", another_export)
    with pytest.raises(FileExistsError, match="3 appeared while it was being written"):
        export(pieces, tmp_path, version=3)  # who asks for a number gets that one or none


FULL = OSError(errno.ENOSPC, "no space left on the disk")


@pytest.mark.parametrize(
    ("module", "function"),
    [
        ("tf.saved_model", "save"),
        ("_model_card", "write"),
        ("_serving_configs", "write"),
        ("_warmup_requests", "write_requests"),
        ("_warmup_requests", "replay_requests"),
        ("atomic_files", "_flush"),
        ("atomic_files.os", "rename"),
    ],
)
def test_a_full_disk_at_any_step_leaves_nothing(
    module, function, pieces, tmp_path, quick, monkeypatch
):
    export(pieces, tmp_path)

    def full_disk(*arguments):
        if function == "save":
            os.mkdir(os.path.join(arguments[1], "variables"))
        raise FULL

    owner = functools.reduce(getattr, module.split("."), _version_writer)
    monkeypatch.setattr(owner, function, full_disk)
    with pytest.raises(OSError, match="no space left on the disk"):
        export(pieces, tmp_path)
    assert os.listdir(tmp_path) == ["1"]
    assert (tmp_path / "1" / "saved_model.pb").read_bytes() == b"graph"


def test_what_a_server_cannot_run_is_refused(pieces, tmp_path, quick, monkeypatch):
    monkeypatch.setattr(_version_writer, "validate_export", lambda path: ["op PyFunc calls Python"])
    with pytest.raises(
        ValueError, match="unmodified TensorFlow Serving can run.*Received: op PyFunc calls Python"
    ):
        export(pieces, tmp_path)
    assert os.listdir(tmp_path) == []


def test_a_version_whose_warm_up_fails_never_appears(pieces, tmp_path, quick, monkeypatch):
    def fail(path, requests):
        assert requests and not (tmp_path / "1").exists()
        raise ValueError("output score: not every number is finite")

    monkeypatch.setattr(_version_writer._warmup_requests, "replay_requests", fail)
    with pytest.raises(ValueError, match="warm-up requests.*output score: not every number"):
        export(pieces, tmp_path)
    assert os.listdir(tmp_path) == []


KILLED = """
import os, signal, sys
sys.path[:0] = sys.argv[2:]
from toy_translator import toy_translator
from keras_attention.export import SearchOptions, _warmup_requests, export_translator, tokenizers
replay = _warmup_requests.replay_requests
def kill(path, requests):
    replay(path, requests[:1])
    os.kill(os.getpid(), signal.SIGKILL)
_warmup_requests.replay_requests = kill
source, target = tokenizers.WordTokenizer(["a"]), tokenizers.WordTokenizer(["b"])
search = SearchOptions(max_length=3)
export_translator(toy_translator(5, 5), sys.argv[1], source=source, target=target, search=search)
"""


@pytest.mark.slow
def test_a_killed_export_leaves_no_version(pieces, tmp_path, quick):
    paths = [os.path.dirname(__file__), os.path.dirname(os.path.dirname(__file__))]
    command = [sys.executable, "-c", KILLED, str(tmp_path), *paths]
    killed = subprocess.run(command, capture_output=True, timeout=300)
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()
    (left,) = os.listdir(tmp_path)
    assert left.startswith(".1.") and left.endswith(".part")  # no server looks at it
    assert os.path.exists(tmp_path / left / "assets.extra" / "model_card.md")
    assert versions.find_versions(tmp_path) == {}
    assert export(pieces, tmp_path).name == "1"
    assert os.listdir(tmp_path) == ["1"]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"beam_width": 0}, "`beam_width` to be a positive int.*beam_width=0"),
        ({"max_length": -1}, "`max_length` to be a positive int.*Or .auto.*max_length=-1"),
        ({"max_length": 3, "min_length": 4}, "at most `max_length`.*min_length=4, max_length=3"),
        ({"min_length": -1}, "min_length=-1"),
        (
            {"suppress_ids": (3,)},
            "`suppress_ids` to be ids.*without EOS, 3",
        ),
        ({"suppress_ids": (10**6,)}, "suppress_ids=\\(1000000,\\)"),
        ({"suppress_ids": "abc"}, "suppress_ids='abc'"),
        (
            {"no_repeat_ngram_size": 0},
            "`no_repeat_ngram_size` to be a positive int.*no_repeat_ngram_size=0",
        ),
        ({"max_source_length": 0}, "max_source_length=0"),
        ({"max_source_length": "all"}, "positive int.*Or None.*max_source_length='all'"),
        ({"version": 0}, "`version` to be a positive int.*version=0"),
        ({"version": "3"}, "version='3'"),
        ({"length_penalty": 99.0}, "GNMTLengthPenalty accepts as `length_penalty`.*penalty=99.0"),
        ({"coverage_penalty": -1.0}, "CoveragePenalty accepts as `coverage_pen.*penalty=-1.0"),
        ({"length_penalty": "gnmt"}, "length_penalty='gnmt'"),
        ({"coverage_penalty": "gnmt"}, "coverage_penalty='gnmt'"),
        ({"xla": True}, "`xla` to be None or an `XLABuckets`.*xla=True"),
        ({"name": "a/b"}, "`name` to consist of letters.*name='a/b'"),
        ({"length_penalty": math.nan}, "as `length_penalty`. Received: length_penalty=nan"),
        ({"coverage_penalty": math.inf}, "as `coverage_penalty`. Received: coverage_penalty=inf"),
        ({"num_groups": 3}, "SearchOptions expects `num_groups`.*num_groups=3"),
        ({"prefix": [[5]]}, "hold for every request, without `prefix`.*Received: prefix="),
        ({"phrases": [[[5]]]}, "hold for every request, without `phrases`.*Received: phrases="),
        ({"memory_mask": [[True]]}, "hold for every request, without `memory_mask`.*memory_mask="),
        ({"max_lengths": [4]}, "hold for every request, without `max_lengths`.*max_lengths="),
        ({"min_length": [4]}, "SearchOptions expects `min_length` to be an int.*min_length="),
        (
            {"special_ids": SpecialIds(start_id=1)},
            "export_translator expects `special_ids` to be those of the decoder.*start_id=2.*"
            "Received: special_ids=SpecialIds\\(start_id=1",
        ),
        ({"special_ids": SpecialIds(end_id=4)}, "Received: special_ids=.*end_id=4"),
        ({"special_ids": SpecialIds(4, (3, 5))}, "`end_id`. Received: special_ids=.*start_id=4"),
        ({"special_ids": SpecialIds(end_id=(3, 6))}, "`end_id` to be ids .* 0 to 5.*=\\(3, 6\\)"),
        ({"repetition_penalty": 0.0}, "`repetition_penalty` to be a number in.*penalty=0.0"),
        ({"logits_processor": tf.keras.layers.Dense(6)}, "`logits_processor` to be a function"),
        ({"logits_processor": "drop"}, "`logits_processor` to be None or a callable.*='drop'"),
        ({"beam_width": 5_000_000}, "34.4 GB.*beam_width=5000000, max_length=128, about 256"),
        ({"beam_width": 10**11}, "beam_width=100000000000, max_length=128, about"),
        ({"max_length": 2**31}, "beam_width=4, max_length=2147483648, about"),
        ({"max_length": 10**11}, "beam_width=4, max_length=100000000000, about"),
        ({"min_length": 10**11}, "min_length=100000000000, max_length=128"),
        ({"max_source_length": 10**11}, "at most 1048576, or None.*length=100000000000"),
        ({"version": 2**63}, "at most 9223372036854775807. Received: 9223372036854775808"),
        ({"suppress_ids": (10**11,)}, "suppress_ids=\\(100000000000,\\)"),
        ({"xla": XLABuckets((1, 10**11))}, "a batch of 100000000000 text.*batches of 100000000000"),
        ({"xla": XLABuckets((1,), (10**11,))}, "smaller sizes.*sources of 100000000000 tokens"),
    ],
)
def test_arguments_are_checked_before_anything_is_written(options, text, pieces, tmp_path):
    with pytest.raises(ValueError, match=text):
        export(pieces, tmp_path, **options)
    assert os.listdir(tmp_path) == []


def test_options_are_given_as_one_object(pieces, tmp_path):
    model, source, target = pieces
    sides = {"source": source, "target": target}
    with pytest.raises(TypeError, match="unexpected keyword argument 'beam_width'"):
        export_translator(model, tmp_path, **sides, beam_width=5)
    with pytest.raises(ValueError, match="`search` to be a `SearchOptions`.*search={'beam_width'"):
        export_translator(model, tmp_path, **sides, search={"beam_width": 5})
    with pytest.raises(ValueError, match="`options` to be a `BeamOptions`.*options={}"):
        SearchOptions(options={})
    with pytest.raises(ValueError, match="`constraints` to be a `Constraints`.*constraints=None"):
        SearchOptions(constraints=None)


def test_the_ids_and_the_cache_are_the_decoders_unless_given(pieces):
    model, source, target = pieces
    decoder = ToyDecoder(6, 7, name="decoder")
    decoder.decoder_start_id = 3
    ends_first = toy_translator(7, 6, decoder=decoder)
    search = SearchOptions()
    found = resolve_search_options("test", search, model, source, target)
    assert found.constraints.special_ids == SpecialIds(start_id=2)
    assert found.options.reorder_cache is gather_beams
    assert (found.max_length, found.max_source_length) == (128, 512)
    found = resolve_search_options("test", search, ends_first, source, target)
    assert found.constraints.special_ids == SpecialIds(start_id=3)
    more = make_search(special_ids=SpecialIds(end_id=[5, 3]))
    ends = resolve_search_options("test", more, ends_first, source, target).constraints
    assert ends.special_ids == SpecialIds(start_id=3, end_id=(3, 5))
    again = resolve_search_options("test", found, ends_first, source, target)
    assert again.constraints.special_ids == found.constraints.special_ids
    assert_same(again, found)

    def reorder(state, parents):
        return gather_beams(state, parents)

    search = make_search(reorder_cache=reorder, special_ids=SpecialIds(start_id=3))
    found = resolve_search_options("test", search, ends_first, source, target)
    assert found.options.reorder_cache is reorder
    with pytest.raises(ValueError, match="test expects `special_ids`.*Received:.*start_id=3"):
        resolve_search_options("test", search, model, source, target)


def test_the_memory_of_a_search_counts_the_state_of_the_decoder(pieces, monkeypatch):
    model, source, target = pieces
    pipeline = TranslationPipeline(model, source, target, 9, 7)
    row = 12 * 6 + 16 * 6 + 12 * 7 + 12 * 7 * 10 + 24 * 10  # 6 logits, 2 beams of 6 or more
    state = 2 * 4 * (model.get_layer("decoder").units + 1)  # the position
    monkeypatch.setattr(_search_memory, "MAX_SEARCH_BYTES", 64 * 3 * (row + state))
    _search_memory.check_search_ram(pipeline, SearchOptions(3))
    more = ({"no_repeat_ngram_size": 2}, {"repetition_penalty": 1.2})
    for beam, options in ((4, {}), *((3, one) for one in more)):
        with pytest.raises(ValueError, match=f"beam_width={beam}, max_length=7"):
            search = make_search(beam_width=beam, **options)
            _search_memory.check_search_ram(pipeline, search)
    monkeypatch.setattr(_search_memory, "MAX_SEARCH_BYTES", 64 * 3 * (row + state) - 1)
    with pytest.raises(ValueError, match="beam_width=3, max_length=7"):
        _search_memory.check_search_ram(pipeline, SearchOptions(3))


def test_a_transformers_cache_is_counted(pieces):
    model, source, target = pieces
    search = SearchOptions(2)
    pipeline = TranslationPipeline(model, source, target, None, 20_000)
    _search_memory.check_search_ram(pipeline, search)
    model = transformer.build(7, 6, units=1024, heads=2, layers=1, dropout=0.0)
    pipeline = TranslationPipeline(model, source, target, None, 20_000)
    with pytest.raises(ValueError, match=r"max_length=20000, about 5\d.\d GB"):
        _search_memory.check_search_ram(pipeline, search)


def test_the_command_refuses_a_search_of_terabytes_in_one_line(pieces, tmp_path, capsys):
    run = str(runs.write_run(tmp_path / "run", pieces[0], {"model": "toy"}, *pieces[1:]))
    for option in ("--beam-width", "--max-length"):
        assert command.main([run, str(tmp_path / "base"), option, "100000000000"]) == 1
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith("error: A beam search is expected to take at most 34.4 GB")
    assert not (tmp_path / "base").exists()


def test_models_and_tokenizers_are_checked(pieces, tmp_path):
    model, source, target = pieces
    wide = tokenizers.WordTokenizer(["a", "b", "c", "d"])
    with pytest.raises(ValueError, match="source tokenizer has more ids than the encoder's embed"):
        export((model, wide, target), tmp_path)
    with pytest.raises(ValueError, match="target tokenizer is expected to be a tokenizer"):
        export((model, source, None), tmp_path)
    with pytest.raises(ValueError, match="model of type Sequential|without encoder"):
        export((tf.keras.Sequential(), source, target), tmp_path)


def test_the_command_passes_its_options_on(pieces, tmp_path, monkeypatch, capsys):
    model, source, target = pieces
    settings = {"model": "toy", "lengths": {"source": 11, "target": 13}}
    run = str(runs.write_run(tmp_path / "run", model, settings, source, target))
    seen = []

    def record(model, directory, **options):
        seen.append((directory, options))
        (tmp_path / "1").mkdir(exist_ok=True)
        return tmp_path / "1"

    monkeypatch.setattr(command, "export_translator", record)
    assert command.main([run, str(tmp_path)]) == 0
    assert f"Exported {run} to {tmp_path / '1'}" in capsys.readouterr().out
    words = "--version 7 --beam-width 2 --max-length 5 --min-length 3 --max-source-length 9"
    words += " --length-penalty 0.6 --coverage-penalty 0.2 --name m"
    words += " --no-repeat-ngram-size 3 --suppress-tokens <unk> --end-tokens x </s>"
    words += " --repetition-penalty 1.2"
    words += " --xla --xla-batch-sizes 1 8 --xla-source-lengths 16 --xla-precision bfloat16"
    words += " --parallel-splits 2 --dtype float32"
    assert command.main([run, str(tmp_path), *words.split()]) == 0
    defaults, given = ({k: v for k, v in o.items() if k not in SIDES} for _, o in seen)
    assert_same(defaults.pop("search"), SearchOptions(max_length=26))  # twice the longest target
    assert defaults == {
        "version": None,
        "name": None,
        "xla": None,
        "run": settings,
    }
    wanted = make_search(
        beam_width=2,
        max_length=5,
        max_source_length=9,
        length_penalty=0.6,
        coverage_penalty=0.2,
        min_length=3,
        suppress_ids=(1,),
        no_repeat_ngram_size=3,
        repetition_penalty=1.2,
        special_ids=SpecialIds(end_id=(3, 4)),
    )
    assert_same(given.pop("search"), wanted)
    assert given == {
        "version": 7,
        "name": "m",
        "xla": XLABuckets((1, 8), (16,), "bfloat16", 2),
        "run": settings,
    }


SIDES = ("source", "target")


def assert_same(found, expected):
    """Compares all fields, those of constraints and penalties too."""
    assert type(found) is type(expected)
    if dataclasses.is_dataclass(found):
        for field in dataclasses.fields(found):
            assert_same(getattr(found, field.name), getattr(expected, field.name))
    elif hasattr(found, "get_config"):
        assert found.get_config() == expected.get_config()
    else:
        assert found == expected


def test_options_of_translators_are_refused_for_another_model(tmp_path, monkeypatch, capsys):
    inputs = tf.keras.Input((3,))
    model = tf.keras.Model(inputs, tf.keras.layers.Dense(2)(inputs))
    run = str(runs.write_run(tmp_path / "run", model, {"model": "han"}))
    monkeypatch.setattr(command, "export_model", lambda *_, **options: seen.append(options))
    seen = []
    words = "--beam-width 4 --suppress-tokens x y --max-source-length 9 --xla"
    words += " --xla-batch-sizes 1 --version 7 --name m"
    assert command.main([run, str(tmp_path), *words.split()]) == 1
    error = capsys.readouterr().err
    assert "is a han, not a translator" in error
    told = error.rpartition("Received: ")[2].strip().split(", ")
    assert sorted(told) == [
        "--beam-width",
        "--max-source-length",
        "--suppress-tokens",
        "--xla",
        "--xla-batch-sizes",
    ]
    assert seen == []


def test_numbers_become_penalties(pieces, tmp_path, quick, monkeypatch):
    seen = []
    functions = translator_export.TranslatorSignatures

    def record(*arguments):
        seen.append(arguments[3])
        return functions(*arguments)

    monkeypatch.setattr(translator_export, "TranslatorSignatures", record)
    export(pieces, tmp_path, length_penalty=0.6, coverage_penalty=0.2)
    (options,) = seen
    assert isinstance(options.length_penalty, GNMTLengthPenalty)
    assert options.length_penalty.alpha == 0.6
    coverage_penalty = options.options.coverage_penalty
    assert isinstance(coverage_penalty, CoveragePenalty)
    assert coverage_penalty.beta == 0.2


def test_the_command_fails_in_one_line(tmp_path, capsys):
    assert command.main([str(tmp_path / "nowhere"), str(tmp_path)]) == 1
    error = capsys.readouterr().err
    assert error == f"error: There is no run directory {tmp_path / 'nowhere'}.\n"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ([], "RUN_DIR"),
        (["run", "base", "--xla-batch-sizes", "0"], "expected a positive integer, got '0'"),
        (["run"], "BASE_DIR"),
        (["run", "base", "--beam-width", "0"], "expected a positive integer, got '0'"),
        (
            ["run", "base", "--xla-batch-sizes", "1"],
            "argument --xla-batch-sizes: requires --xla",
        ),
        (
            ["run", "base", "--xla-source-lengths", "16"],
            "argument --xla-source-lengths: requires --xla",
        ),
        (
            ["run", "base", "--parallel-splits", "2"],
            "argument --parallel-splits: requires --xla",
        ),
        (
            ["--validate", "p", "--beam-width", "4"],
            "--validate: not allowed with other arguments",
        ),
        (["run", "base", "--version", "new"], "expected a positive integer, got 'new'"),
        (["run", "base", "--length-penalty", "x"], "expected average or a number from -10 to 10"),
        (
            ["run", "base", "--max-length", "9" * 4400],
            f"integer of at most {2**63 - 1}, got '{'9' * 40}'...\n",
        ),
        (["run", "base", "--max-source-length", "2000000000"], "at most 1048576, got '2000000000'"),
        (
            ["run", "base", "--no-repeat-ngram-size", "9" * 20],
            f"at most 2147483647, got '{'9' * 20}'",
        ),
    ],
)
def test_wrong_usage_exits_with_2(arguments, text, capsys):
    with pytest.raises(SystemExit) as caught:
        command.main(arguments)
    assert caught.value.code == 2
    assert text in capsys.readouterr().err
