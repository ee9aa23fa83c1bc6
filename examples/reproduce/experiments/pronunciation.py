"""Pronunciation: CMUdict and SIGMORPHON 2020."""

from examples.reproduce.experiment import Experiment, Goal

CMUDICT = (
    "--pairs {data}/g2p_cmudict/train.tsv.gz --validation-pairs {data}/g2p_cmudict/dev.tsv.gz"
    " --source-tokenizer characters --target-tokenizer words --num-buckets 6 --monitor wer"
)
CMUDICT_TEST = "--pairs {data}/g2p_cmudict/test.tsv.gz --format targets --beam-width 4"
SIGMORPHON = (
    "--pairs {data}/g2p_sigmorphon2020/{part}_train.tsv.gz"
    " --validation-pairs {data}/g2p_sigmorphon2020/{part}_dev.tsv.gz"
    " --source-tokenizer characters --target-tokenizer words --num-buckets 3 --monitor wer"
)
SIGMORPHON_TEST = "--pairs {data}/g2p_sigmorphon2020/{part}_test.tsv.gz --beam-width 4"
LANGUAGES = ("arm", "bul", "dut", "fre", "geo", "gre", "hun", "jpn")
LETTERS = (  # of Luong's models on CMUdict
    "--units 256 --embedding-dim 128 --dropout 0.3 --batch-size 128 --label-smoothing 0.1 "
    "--learning-rate 0.002 --ema-decay 0.999 --epochs 18 --decay-epochs 9"
)

WIDE_LETTERS = (
    "--units 512 --embedding-dim 128 --dropout 0.4 --batch-size 256 --label-smoothing 0.1"
    " --learning-rate 0.002 --ema-decay 0.999 --epochs 24 --decay-epochs 14"
)

CMUDICT_EXPERIMENTS = (
    Experiment(
        "cmudict-luong",
        "CMUdict, letters to phonemes",
        "luong",
        f"{CMUDICT} --scorer dot {LETTERS}",
        CMUDICT_TEST,
        120,
        (Goal("wer", at_most=24), Goal("per", at_most=5.6)),
        "WER 21.69, PER 5.04 (LSTM, global attention: Toshniwal & Livescu 2016)",
    ),
    Experiment(
        "cmudict-luong-bidirectional",
        "CMUdict, letters to phonemes",
        "luong",
        f"{CMUDICT} --scorer dot --bidirectional {WIDE_LETTERS}",
        f"{CMUDICT_TEST} --length-penalty average",
        180,
        (Goal("wer", at_most=21.7), Goal("per", at_most=5.0)),
        "WER 21.69, PER 5.04 (bidirectional LSTM, global attention: Toshniwal & Livescu 2016)",
    ),
    Experiment(
        "cmudict-luong-512",
        "CMUdict, letters to phonemes",
        "luong",
        f"{CMUDICT} --scorer dot {WIDE_LETTERS}",
        CMUDICT_TEST,
        240,
        (Goal("wer", at_most=21.7), Goal("per", at_most=5.0)),
        "WER 21.69, PER 5.04 (bidirectional LSTM, global attention: Toshniwal & Livescu 2016)",
    ),
    Experiment(
        "cmudict-rnnsearch",
        "CMUdict, letters to phonemes",
        "rnnsearch",
        f"{CMUDICT} --units 384 --embedding-dim 128 --dropout 0.35 --batch-size 128"
        " --label-smoothing 0.1 --learning-rate 0.002 --ema-decay 0.999 --epochs 16"
        " --decay-epochs 8",
        f"{CMUDICT_TEST} --length-penalty average",
        120,
        (Goal("wer", at_most=24), Goal("per", at_most=5.6)),
        "WER 21.69, PER 5.04 (bidirectional LSTM, global attention: Toshniwal & Livescu 2016)",
    ),
    Experiment(
        "cmudict-ensemble",
        "CMUdict, letters to phonemes",
        "luong",
        "",
        f"{CMUDICT_TEST} --ensemble {{runs}}/cmudict-luong-bidirectional"
        " {runs}/cmudict-rnnsearch",
        0,
        (Goal("wer", at_most=21.7), Goal("per", at_most=5.0)),
        "WER 20.24, PER 4.69 (an ensemble, global attention: Toshniwal & Livescu 2016)",
        measures="cmudict-luong-512",
    ),
    Experiment(
        "cmudict-transformer",
        "CMUdict, letters to phonemes",
        "transformer",
        f"{CMUDICT} --units 128 --feed-forward-dim 512 --layers 4 --dropout 0.1 --batch-size 128 "
        "--label-smoothing 0.1 --learning-rate 0.7 --ema-decay 0.999 --dtype mixed_bfloat16 "
        "--no-xla --schedule inverse-sqrt --warmup 2000 --epochs 46 --decay-epochs 6",
        CMUDICT_TEST,
        150,
        (Goal("wer", at_most=22), Goal("per", at_most=5.2)),
        "WER 22.1, PER 5.23 (4 + 4 layers: Yolchuyeva et al. 2019)",
    ),
    Experiment(
        "cmudict-local-p",
        "CMUdict, letters to phonemes",
        "luong",
        f"{CMUDICT} --local-attention predictive --window 11 --scorer dot {LETTERS}",
        f"{CMUDICT_TEST} --aligned-by {{runs}}/cmudict-luong",
        120,
        (Goal("wer", at_most=1, above="cmudict-luong"),),
    ),
)

SIGMORPHON_EXPERIMENTS = (
    Experiment(
        "sigmorphon2020",
        "SIGMORPHON 2020, macro of 8 languages",
        "rnnsearch",
        f"{SIGMORPHON} --units 128 --embedding-dim 64 --dropout 0.3 --batch-size 32 "
        "--label-smoothing 0.1 --learning-rate 0.003 --ema-decay 0.99 --epochs 40",
        SIGMORPHON_TEST,
        64,
        (Goal("wer", at_most=18),),
        "WER 15.8 (LSTM), 16.3 (Transformer), of the same 8 (Gorman et al. 2020)",
        parts=LANGUAGES,
    ),
)
