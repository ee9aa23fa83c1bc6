"""Search options by the names of their fields, exports with them, and their comparison."""

import dataclasses

from search_runs import build_arguments

from keras_attention.export import SearchOptions, export_translator


def make_search(**fields):
    """Returns `SearchOptions` from its own fields, those of its constraints and its options."""
    return SearchOptions(**build_arguments(**fields))


def export(pieces, base, version=None, name=None, xla=None, **fields):
    model, source, target = pieces
    sides = {"source": source, "target": target}
    search = make_search(**fields)
    return export_translator(
        model, base, **sides, version=version, name=name, search=search, xla=xla
    )


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
