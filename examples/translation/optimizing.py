"""Optimizers and learning rates as the papers have them, by the names of the command line.

| name     | parameters                                  | paper                                |
|----------|---------------------------------------------|--------------------------------------|
| adam     | beta_1 0.9, beta_2 0.999 (with inverse-sqrt: 0.98)  | Kingma & Ba 2015, Vaswani et al. 2017 |
| sgd      | rate 1, halved                              | Luong et al. 2015                    |
| nesterov | rate 0.25, momentum 0.99                    | Gehring et al. 2017                  |
| adadelta | rho 0.95, epsilon 1e-6, rate 1              | Cho et al. 2014, Bahdanau et al. 2015 |
| rmsprop  | rho 0.9                                     |                                      |
"""

import argparse

import keras

from examples.commands.arguments import UsageError
from examples.training import schedules
from examples.training.settings import optimizer_options

#: The names of the optimizers and the rates they begin with.
OPTIMIZERS = {"adam": 1e-3, "sgd": 1.0, "nesterov": 0.25, "adadelta": 1.0, "rmsprop": 1e-3}
SCHEDULES = ("constant", "plateau", "halving", "inverse-sqrt")
#: Options that belong to one optimizer or schedule.
BELONGS_TO = {
    "beta_2": ("optimizer", "adam"),
    "warmup": ("schedule", "inverse-sqrt"),
    "plateau_factor": ("schedule", "plateau"),
    "plateau_patience": ("schedule", "plateau"),
    "lr_decay_start": ("schedule", "halving"),
    "lr_decay_every": ("schedule", "halving"),
}


def check(arguments: argparse.Namespace) -> None:
    """Raises `UsageError` if an option is given without what it belongs to."""
    for name, (owner, value) in BELONGS_TO.items():
        if getattr(arguments, name) is not None and getattr(arguments, owner) != value:
            flag = f"--{name.replace('_', '-')}"
            raise UsageError(
                f"{flag} is for --{owner} {value}. Leave it out, or choose that. Received: "
                f"{flag} {getattr(arguments, name)} --{owner} {getattr(arguments, owner)}"
            )
    cooling = arguments.decay_epochs
    if cooling is not None and (arguments.schedule == "plateau" or cooling > arguments.epochs):
        raise UsageError(
            "--decay-epochs takes its epochs from the end of --epochs, and is not for --schedule "
            f"plateau. Received: --decay-epochs {cooling:g} --epochs {arguments.epochs} "
            f"--schedule {arguments.schedule}"
        )
    if arguments.schedule == "inverse-sqrt" and not getattr(arguments, "units", None):
        raise UsageError(
            "--schedule inverse-sqrt needs the width of the model, and this system has no --units. "
            "Choose another schedule."
        )


def make_optimizer(
    arguments: argparse.Namespace, batches_per_epoch: int
) -> keras.optimizers.Optimizer:
    """Returns the optimizer that the arguments ask for, its rate a schedule where they say so.

    Args:
        arguments: The options of `train`.
        batches_per_epoch: What an epoch is to `--schedule halving` and `--decay-epochs`.
    """
    rate = _rate(arguments, batches_per_epoch)
    name, options = arguments.optimizer, optimizer_options(arguments)
    if name == "adam":
        is_noam = arguments.schedule == "inverse-sqrt"
        beta_2 = arguments.beta_2
        if beta_2 is None:
            beta_2 = 0.98 if is_noam else 0.999
        epsilon = 1e-9 if is_noam else 1e-7
        return keras.optimizers.Adam(rate, beta_2=beta_2, epsilon=epsilon, **options)
    if name == "nesterov":
        return keras.optimizers.SGD(rate, momentum=0.99, nesterov=True, **options)
    if name == "adadelta":
        return keras.optimizers.Adadelta(rate, rho=0.95, epsilon=1e-6, **options)
    return {"sgd": keras.optimizers.SGD, "rmsprop": keras.optimizers.RMSprop}[name](rate, **options)


def _rate(arguments, batches_per_epoch):
    rate = _rate_before_cooling(arguments, batches_per_epoch)
    if arguments.decay_epochs is None:
        return rate
    epochs = (arguments.epochs, arguments.decay_epochs)
    total, cooling = (max(1, round(number * batches_per_epoch)) for number in epochs)
    return schedules.CoolDownSchedule(rate, total, cooling)


def _rate_before_cooling(arguments, batches_per_epoch):
    if arguments.schedule == "inverse-sqrt":
        scale = arguments.learning_rate or 1.0
        return schedules.NoamSchedule(arguments.units, arguments.warmup or 4000, scale)
    rate = arguments.learning_rate or OPTIMIZERS[arguments.optimizer]
    if arguments.schedule != "halving":
        return rate
    return schedules.halving_after_epoch(
        rate, arguments.lr_decay_start or 5.0, batches_per_epoch, arguments.lr_decay_every or 1.0
    )
