"""Reading: movie reviews, bAbI, cloze questions from books, and a language model."""

from examples.reproduce.experiment import Experiment, Goal

REVIEWS = "{data}/movie_reviews/movie_reviews.folds0-8.jsonl.gz"
CLOZE = (
    "--questions {data}/cloze_en/books_ne.train.txt.gz"
    " --validation-questions {data}/cloze_en/books_ne.valid.txt.gz"
    " --units 128 --embedding-dim 96 --embedding-l2 0 --vocabulary-size 4000"
    " --common-word-dim 8 --shared-encoder --every-candidate"
    " --dropout 0.3 --annotation-dropout 0.5 --ema-decay 0.999 --epochs 8"
)
CLOZE_TEST = "--questions {data}/cloze_en/books_ne.test.txt.gz"
LANGUAGE = (
    "--text {data}/multi30k/tok/train.lc.norm.tok.en.gz"
    " --validation-text {data}/multi30k/tok/val.lc.norm.tok.en.gz --min-frequency 2 --units 256"
    " --embedding-dim 256 --dropout 0.5 --learning-rate 0.002 --plateau 1 --epochs 20"
)
LANGUAGE_TEST = "--text {data}/multi30k/tok/test_2016_flickr.lc.norm.tok.en.gz"
EASY_TASKS = Goal("error", at_most=5, tasks=("1", "4", "12", "15", "20"))
TASKS = tuple(str(task) for task in range(1, 21))
RESTARTS = tuple(range(1, 11))  # seeds

READING_EXPERIMENTS = (
    Experiment(
        "reviews-han",
        "Movie reviews, fold 8",
        "han",
        f"--documents {REVIEWS} --folds 0-6 --validation-folds 7 --embedding-dim 100 --dropout 0.5"
        " --word-dropout 0.3 --num-buckets 3 --learning-rate 0.0005 --ema-decay 0.98 --epochs 15"
        " --patience 5",
        f"--documents {REVIEWS} --folds 8 --naive-bayes-folds 0-7",
        30,
        (Goal("accuracy", at_least=79),),
        "83.45 % (naive Bayes on words, ten folds: Wang & Manning 2012)",
    ),
    Experiment(
        "memory-network",
        "bAbI 1k, each task by itself",
        "memory-network",
        "--stories {data}/babi/babi_en_1k.tar.xz --task {part} --epochs 120",
        "",
        400,
        (Goal("error", at_most=13.8), EASY_TASKS),
        "13.8 % (mean of 20, best of 10 restarts: Sukhbaatar et al. 2015)",
        seeds=RESTARTS,
        parts=TASKS,
    ),
    Experiment(
        "memory-network-10k",
        "bAbI 10k, each task by itself, without task 3 (of which there is no training file)",
        "memory-network",
        "--stories {data}/babi/babi_en_10k.tar.xz --task {part} --epochs 100",
        "",
        228,
        (Goal("error", at_most=6), EASY_TASKS),
        "4.3 % (mean of the same 19: Sukhbaatar et al. 2015, as tabulated by Henaff et al. 2017)",
        parts=tuple(task for task in TASKS if task != "3"),
    ),
    Experiment(
        "memory-network-joint",
        "bAbI 1k, all tasks together",
        "memory-network",
        # The schedule of the authors' code.
        "--stories {data}/babi/babi_en_1k.tar.xz --units 50 --epochs 90 --lr-decay-every 15"
        " --learning-rate 0.005 --linear-epochs 30 --linear-patience 30",
        "",
        200,
        (Goal("error", at_most=12.4), EASY_TASKS),
        "12.4 % (mean of 20, best of 10 restarts: Sukhbaatar et al. 2015)",
        seeds=RESTARTS,
    ),
    Experiment(
        "books-attention-over-attention",
        "Cloze questions from books, names",
        "attention-over-attention",
        CLOZE,
        CLOZE_TEST,
        70,
        (Goal("accuracy", at_least=46),),
        "30.0 % (the most frequent candidate); no model's",
    ),
    Experiment(
        "books-attention-sum",
        "Cloze questions from books, names",
        "attention-sum",
        CLOZE,
        CLOZE_TEST,
        70,
        (),
        "30.0 % (the most frequent candidate); no model's",
    ),
)

LANGUAGE_EXPERIMENTS = (
    Experiment(
        "language-lstm",
        "Multi30k English, the next word",
        "lstm-language-model",
        LANGUAGE,
        LANGUAGE_TEST,
        60,
    ),
    Experiment(
        "language-lstmn",
        "Multi30k English, the next word",
        "lstmn",
        LANGUAGE,
        LANGUAGE_TEST,
        90,
        (Goal("perplexity", at_most=0, above="language-lstm"),),
        "108 beside an LSTM's 115 (Penn Treebank: Cheng et al. 2016)",
    ),
)
