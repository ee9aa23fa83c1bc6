"""Images: captions of scenes, and digits."""

from examples.reproduce.experiment import Experiment, Goal

SCENES = "Scenes of MNIST digits"
CAPTIONS = (
    "--annotation-dim 128 --convolutions 6 --distortion 0.15 --learning-rate 0.001"
    " --ema-decay 0.998 --validation-size 4096 --monitor accuracy --no-xla"
    " --epochs 150 --lr-decay-start 70 --lr-decay-every 12"
)
CAPTION_GOALS = (
    Goal("token_accuracy", at_least=0.995),
    Goal("exact_match", at_least=0.98),
    Goal("pointing_accuracy", at_least=0.95),
)

CAPTION_EXPERIMENTS = (
    Experiment(
        "scenes-soft",
        SCENES,
        "show-attend-tell",
        f"--mnist {{data}}/mnist {CAPTIONS}",
        "--mnist {data}/mnist",
        90,
        CAPTION_GOALS,
    ),
    Experiment(
        "scenes-hard",
        SCENES,
        "show-attend-tell",
        f"--mnist {{data}}/mnist --attention hard {CAPTIONS}",
        "--mnist {data}/mnist",
        90,
        CAPTION_GOALS,
    ),
    Experiment(
        "scenes-hard-control",
        f"{SCENES}, hard attention without REINFORCE",
        "show-attend-tell",
        "--mnist {data}/mnist --attention hard --expected-rate 0 --reinforce 0 --epochs 8",
        "--mnist {data}/mnist",
        15,
        (Goal("pointing_accuracy", at_most=0.5),),
    ),
    Experiment(
        "scenes-guided",
        f"{SCENES}, a sentence names one",
        "text-guided",
        "--mnist {data}/mnist --digits 1:4 --annotation-dim 128 --convolutions 6 --distortion 0.15"
        " --encoder-from {runs}/scenes-soft --epochs 20 --lr-decay-start 14 --ema-decay 0.995"
        " --no-xla",
        "--mnist {data}/mnist --digits 2:4",
        30,
        (Goal("pointing_accuracy", at_least=0.99),),
    ),
)

DIGIT_EXPERIMENTS = (
    Experiment(
        "digits-ram",
        "MNIST",
        "ram",
        "--mnist {data}/mnist --draws 8 --batch-size 16 --bias-per-glimpse --reward-weight 1"
        " --ema-decay 0.999 --monitor crossentropy --epochs 50 --decay-epochs 50",
        "",
        60,
        (Goal("error", at_most=1.3),),
        "1.29 % in print, 1.12 % in the preprint (6 glimpses of 8 x 8: Mnih et al. 2014)",
    ),
    Experiment(
        "digits-draw",
        "MNIST, binarized",
        "draw",
        "--mnist {data}/mnist --learning-rate 0.002 --epochs 30",
        "",
        50,
        (),
        "80.97 nats (64 steps: Gregor et al. 2015)",
    ),
)
