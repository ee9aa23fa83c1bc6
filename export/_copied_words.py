"""A translator whose decoder copies words: what its tokenizers and options must be."""

from keras_attention.decoders import CopyNetDecoder, PointerGeneratorDecoder
from keras_attention.export.tokenizers import CopiedWords

#: The decoders that copy words of the source.
COPYING_DECODERS = (PointerGeneratorDecoder, CopyNetDecoder)


def make_copied_words(decoder, source, max_source_length) -> CopiedWords | None:
    """Returns the `CopiedWords` of a translator, or None if its decoder copies none."""
    if not isinstance(decoder, COPYING_DECODERS):
        return None
    return CopiedWords(source, decoder.num_copied_words, max_source_length)


def check_copied_words(owner, decoder, source, target, replace_unknown) -> None:
    """Raises unless the tokenizers and options fit a decoder that copies words, if it is one."""
    if not isinstance(decoder, COPYING_DECODERS):
        return
    sides = [(one.kind, one.lowercase, one.symbols, one.get_content()) for one in (source, target)]
    if sides[0] != sides[1] or source.kind != "words":
        raise ValueError(
            f"{owner} expects one word tokenizer of both sides for a decoder that copies words: "
            "a copied word has the same id on both. Subwords spell unknown words anyway. "
            f"Received: source={source.kind}, target={target.kind}"
            + ("" if sides[0] == sides[1] else ", which differ")
        )
    size, found = target.vocabulary_size, decoder.decoder.vocabulary_size
    num_extra = found - decoder.first_copied_id
    if found != size + num_extra:
        count = "one" if num_extra == 1 else num_extra
        raise ValueError(
            f"{owner} expects a decoder that copies words to have {size + num_extra} "
            f"ids inside, {count} more than the tokenizer. Received: a decoder with {found}"
        )
    if replace_unknown is not False:
        raise ValueError(
            f"{owner} expects no `replace_unknown` for a decoder that copies unknown words itself. "
            "Leave it out."
        )
