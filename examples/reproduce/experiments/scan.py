"""Commands to actions: SCAN."""

from examples.reproduce.experiment import Experiment, Goal

TRANSFORMER = "--schedule inverse-sqrt --warmup 2000 --epochs 40"
JUMP = "0.1 % exact, 1.2 % at best (RNNs: Lake & Baroni 2018)"


def _scan(split, num_buckets=6):
    pairs = f"--pairs {{data}}/scan/tasks_train_{split}.txt.gz"
    return f"{pairs} --format scan --tokenizer words --num-buckets {num_buckets}"


def _scan_test(split):
    pairs = f"--pairs {{data}}/scan/tasks_test_{split}.txt.gz"
    return f"{pairs} --format scan --beam-width 1 --max-length 60"


SCAN_EXPERIMENTS = (
    Experiment(
        "scan-simple-seq2seq",
        "SCAN simple",
        "seq2seq",
        f"{_scan('simple')} --units 200 --embedding-dim 200 --layers 2 --dropout 0.1 --epochs 30",
        _scan_test("simple"),
        30,
        (Goal("exact_match", at_least=0.99),),
        "99.8 % exact (LSTM: Lake & Baroni 2018)",
    ),
    Experiment(
        "scan-simple-transformer",
        "SCAN simple",
        "transformer",
        f"{_scan('simple')} --units 128 --layers 2 --dropout 0.1 {TRANSFORMER}",
        _scan_test("simple"),
        30,
        (Goal("exact_match", at_least=0.99),),
        "99.8 % exact (LSTM: Lake & Baroni 2018)",
    ),
    Experiment(
        "scan-jump-seq2seq",
        "SCAN jump",
        "seq2seq",
        f"{_scan('addprim_jump')} --units 200 --embedding-dim 200 --layers 2 --dropout 0.1 "
        "--epochs 30",
        _scan_test("addprim_jump"),
        30,
        (Goal("exact_match", at_most=0.05),),
        JUMP,
    ),
    Experiment(
        "scan-jump-rnnsearch",
        "SCAN jump",
        "rnnsearch",
        f"{_scan('addprim_jump')} --units 200 --embedding-dim 200 --dropout 0.1 --epochs 30",
        _scan_test("addprim_jump"),
        15,
        (Goal("exact_match", at_most=0.05),),
        JUMP,
    ),
    Experiment(
        "scan-jump-luong",
        "SCAN jump",
        "luong",
        f"{_scan('addprim_jump')} --units 200 --embedding-dim 200 --layers 2 --dropout 0.1 "
        "--epochs 30",
        _scan_test("addprim_jump"),
        15,
        (Goal("exact_match", at_most=0.05),),
        JUMP,
    ),
    Experiment(
        "scan-jump-key-value",
        "SCAN jump",
        "key-value",
        f"{_scan('addprim_jump', 3)} --batch-size 32 --learning-rate 0.002 --epochs 16"
        " --decay-epochs 6",
        _scan_test("addprim_jump"),
        30,
        (Goal("exact_match", at_least=0.95),),
        "98.8 % exact (Li et al. 2019)",
    ),
    Experiment(
        "scan-around-right-key-value",
        "SCAN around right",
        "key-value",
        f"{_scan('template_around_right', 3)} --penalty words --embedding-l2 0.0005 --batch-size 32"
        " --learning-rate 0.002 --epochs 16 --decay-epochs 6",
        _scan_test("template_around_right"),
        30,
        (),
        "",
    ),
    Experiment(
        "scan-length-seq2seq",
        "SCAN length",
        "seq2seq",
        f"{_scan('length')} --units 200 --embedding-dim 200 --layers 2 --dropout 0.1 --epochs 30",
        _scan_test("length"),
        30,
        (),
        "13.8 % exact, 20.8 % at best (RNNs: Lake & Baroni 2018)",
    ),
)
