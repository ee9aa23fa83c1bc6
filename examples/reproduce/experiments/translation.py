"""Translation: Multi30k."""

from examples.reproduce.experiment import Experiment, Goal


def _multi30k(source, target):
    """The training and validation files."""
    tok = "{data}/multi30k/tok"
    return (
        f"--source {tok}/train.lc.norm.tok.{source}.gz --target {tok}/train.lc.norm.tok.{target}.gz"
        f" --validation-source {tok}/val.lc.norm.tok.{source}.gz"
        f" --validation-target {tok}/val.lc.norm.tok.{target}.gz"
    )


def _multi30k_test(source, target):
    test = "{data}/multi30k/tok/test_2016_flickr.lc.norm.tok"
    return f"--source {test}.{source}.gz --target {test}.{target}.gz"


GERMAN = (
    f"{_multi30k('de', 'en')} --tokenizer words --min-frequency 2 --batch-size 64 --num-buckets 6"
    " --label-smoothing 0.1"
)
GERMAN_TEST = f"{_multi30k_test('de', 'en')} --beam-width 4"
RECURRENT = "--learning-rate 0.0015 --ema-decay 0.999 --epochs 20"
JOINT = (  # of RNNsearch, with and without copying
    "--joint-vocabulary --units 256 --embedding-dim 256 --dropout 0.3 --learning-rate 0.0015"
    " --ema-decay 0.999 --epochs 12"
)
# Products in bfloat16: in graph mode faster than float32 under XLA, where the processor has them.
SMALL_TRANSFORMER = (
    "--units 256 --feed-forward-dim 512 --layers 3 --dropout 0.3 --schedule inverse-sqrt"
    " --warmup 2000 --learning-rate 0.7 --ema-decay 0.999 --dtype mixed_bfloat16 --no-xla"
    " --epochs 30"
)
SUBWORD_TRANSFORMER = (
    "--num-buckets 6 --label-smoothing 0.1 --tokenizer sentencepiece --vocabulary-size 8000"
    " --joint-vocabulary --share-embeddings --units 128 --feed-forward-dim 256 --layers 4"
    " --heads 4 --normalization pre --dropout 0.3 --schedule inverse-sqrt --warmup 2000"
    " --learning-rate 2 --ema-decay 0.999 --batch-size 128 --epochs 60 --decay-epochs 25"
)
NOTEBOOKS = "bentrevett/pytorch-seq2seq, greedy"

MULTI30K_EXPERIMENTS = (
    Experiment(
        "multi30k-seq2seq",
        "Multi30k de-en",
        "seq2seq",
        f"{GERMAN} --units 256 --embedding-dim 256 --layers 2 --dropout 0.3 {RECURRENT}",
        GERMAN_TEST,
        90,
        (Goal("bleu", at_least=14),),
        f"13.8 BLEU (LSTM 2 x 512, {NOTEBOOKS})",
    ),
    Experiment(
        "multi30k-rnn-encoder-decoder",
        "Multi30k de-en",
        "rnn-encoder-decoder",
        f"{GERMAN} --units 512 --embedding-dim 256 --dropout 0.3 {RECURRENT}",
        GERMAN_TEST,
        30,
        (Goal("bleu", at_least=20),),
        f"20.6 BLEU (GRU, context at every step, {NOTEBOOKS})",
    ),
    Experiment(
        "multi30k-no-attention",
        "Multi30k de-en",
        "rnnsearch",
        f"{GERMAN} --attention none --units 256 --embedding-dim 256 --dropout 0.3 {RECURRENT}",
        GERMAN_TEST,
        30,
        (Goal("bleu", at_least=14),),
    ),
    Experiment(
        "multi30k-rnnsearch",
        "Multi30k de-en",
        "rnnsearch",
        f"{GERMAN} --units 256 --embedding-dim 256 --dropout 0.3 {RECURRENT}",
        GERMAN_TEST,
        37,
        (Goal("bleu", at_least=30),),
        f"28.3 BLEU (GRU 512, additive attention, {NOTEBOOKS})",
    ),
    Experiment(
        "multi30k-joint",
        "Multi30k de-en, one vocabulary of both sides",
        "rnnsearch",
        f"{GERMAN} {JOINT}",
        GERMAN_TEST,
        40,
    ),
    Experiment(
        "multi30k-copy",
        "Multi30k de-en, unknown words can be copied",
        "rnnsearch",
        f"{GERMAN} {JOINT} --copied-words 16",
        GERMAN_TEST,
        40,
    ),
    Experiment(
        "multi30k-luong",
        "Multi30k de-en",
        "luong",
        f"{GERMAN} --bidirectional --units 256 --embedding-dim 256 --dropout 0.3"
        " --learning-rate 0.0015 --ema-decay 0.999 --epochs 16 --decay-epochs 6",
        f"{GERMAN_TEST} --length-penalty average",
        80,
        (Goal("bleu", at_least=38),),
        "28.3 BLEU (the additive row)",
    ),
    Experiment(
        "multi30k-convs2s",
        "Multi30k de-en",
        "convs2s",
        f"{GERMAN} --dropout 0.25 --learning-rate 0.0007 --ema-decay 0.999 --epochs 30"
        " --dtype mixed_bfloat16 --no-xla",
        GERMAN_TEST,
        45,
        (Goal("bleu", at_least=33),),
        f"34.1 BLEU (37.4 million parameters, {NOTEBOOKS})",
    ),
    Experiment(
        "multi30k-transformer",
        "Multi30k de-en",
        "transformer",
        f"{GERMAN} {SMALL_TRANSFORMER}",
        GERMAN_TEST,
        60,
        (Goal("bleu", at_least=37),),
        f"36.5 BLEU (3 + 3 layers, width 256, {NOTEBOOKS})",
    ),
    Experiment(
        "multi30k-transformer-subwords",
        "Multi30k de-en",
        "transformer",
        f"{_multi30k('de', 'en')} {SUBWORD_TRANSFORMER}",
        f"{_multi30k_test('de', 'en')} --bleu-tokenize none --beam-width 5"
        " --length-penalty average",
        180,
        (Goal("bleu", at_least=41),),
        f"36.5 BLEU (3 + 3 layers, width 256, {NOTEBOOKS})",
    ),
    Experiment(
        "multi30k-transformer-en-de",
        "Multi30k en-de",
        "transformer",
        f"{_multi30k('en', 'de')} {SUBWORD_TRANSFORMER}",
        f"{_multi30k_test('en', 'de')} --bleu-tokenize none --beam-width 5"
        " --length-penalty average",
        180,
        (Goal("bleu", at_least=41),),
        "41.0 BLEU (4 + 4 layers, width 128, joint subwords, beam 5, LividWo/Revisit-MMT)",
    ),
)
