"""Optimizers and learning rates as the papers have them, by the names of the command line.

| name     | parameters                                          | paper                         |
|----------|-----------------------------------------------------|-------------------------------|
| adam     | beta_1 0.9, beta_2 0.999 (with inverse-sqrt: 0.98)  | Kingma & Ba 2015, Vaswani 2017 |
| sgd      | rate 1, halved                                      | Luong et al. 2015             |
| nesterov | rate 0.25, momentum 0.99                            | Gehring et al. 2017           |
| adadelta | rho 0.95, epsilon 1e-6, rate 1                      | Cho 2014, Bahdanau 2015       |
| rmsprop  | rho 0.9                                             |                               |
"""

import dataclasses
import pathlib
from typing import ClassVar, Literal

import keras

from examples.commands.arguments import UsageError
from examples.commands.options import Fraction, OpenFraction, PositiveFloat
from examples.recipes.base import Recipe
from examples.training import schedules
from examples.training.recorder import Plateau

#: The names of the optimizers and the rates they begin with.
OPTIMIZERS = {"adam": 1e-3, "sgd": 1.0, "nesterov": 0.25, "adadelta": 1.0, "rmsprop": 1e-3}
#: Options that belong to one optimizer or schedule.
BELONGS_TO = {
    "beta_2": ("optimizer", "adam"),
    "warmup": ("schedule", "inverse-sqrt"),
    "plateau_factor": ("schedule", "plateau"),
    "plateau_patience": ("schedule", "plateau"),
    "lr_decay_start": ("schedule", "halving"),
    "lr_decay_every": ("schedule", "halving"),
}


@dataclasses.dataclass(kw_only=True)
class OptimizedRecipe(Recipe):
    """A recipe that lets its user choose an optimizer and a schedule.

    Attributes:
        optimizer: Sgd is plain, nesterov has momentum 0.99.
        learning_rate: Learning rate at the beginning, for --schedule inverse-sqrt a factor on it;
            by default 0.001 for adam and rmsprop, 0.25 for nesterov, 1 for sgd, adadelta and
            --schedule inverse-sqrt.
        beta_2: Of adam; by default 0.999, or 0.98 for --schedule inverse-sqrt.
        schedule: Plateau lowers the rate when --monitor stops improving, halving halves it after
            so many epochs; inverse-sqrt is the Transformer's, for a model with --units.
        plateau_factor: The factor of the rate with --schedule plateau, 0.1 in the ConvS2S paper;
            0.5 by default.
        plateau_patience: Epochs without a new best before --schedule plateau lowers the rate; 2 by
            default.
        decay_epochs: The last epochs of --epochs, in which the rate falls to nothing in a line;
            let nothing else stop the run then, and keep --epochs; none by default.
        warmup: Steps until the highest rate of --schedule inverse-sqrt; 4000 by default.
        lr_decay_start: Epochs at the full rate of --schedule halving; 5 by default.
        lr_decay_every: Epochs from one halving to the next; 1 by default.
    """

    training_fields: ClassVar = (
        "monitor", "optimizer", "schedule", *BELONGS_TO, "decay_epochs"
    )  # fmt: skip

    optimizer: Literal[tuple(OPTIMIZERS)] = "adam"
    learning_rate: PositiveFloat | None = None
    beta_2: Fraction | None = None
    schedule: Literal["constant", "plateau", "halving", "inverse-sqrt"] = "constant"
    plateau_factor: OpenFraction | None = None
    plateau_patience: int | None = None
    decay_epochs: PositiveFloat | None = None
    warmup: int | None = None
    lr_decay_start: PositiveFloat | None = None
    lr_decay_every: PositiveFloat | None = None

    def check(self) -> None:
        for name, (owner, value) in BELONGS_TO.items():
            if getattr(self, name) is not None and getattr(self, owner) != value:
                flag = f"--{name.replace('_', '-')}"
                raise UsageError(
                    f"{flag} is for --{owner} {value}. Leave it out, or choose that. Received: "
                    f"{flag} {getattr(self, name)} --{owner} {getattr(self, owner)}"
                )
        decay = self.decay_epochs
        if decay is not None and (self.schedule == "plateau" or decay > self.epochs):
            raise UsageError(
                "--decay-epochs takes its epochs from the end of --epochs, and is not for "
                f"--schedule plateau. Received: --decay-epochs {decay:g} --epochs {self.epochs} "
                f"--schedule {self.schedule}"
            )
        if self.schedule == "inverse-sqrt" and not self.model_options.get("units"):
            raise UsageError(
                "--schedule inverse-sqrt needs the width of the model, and this model has no "
                "--units. Choose another schedule."
            )

    def make_optimizer(self, model: keras.Model, batches) -> keras.optimizers.Optimizer:
        rate, options = self.make_rate(batches.batches_per_epoch()), self.get_optimizer_options()
        if self.optimizer == "adam":
            is_inverse_sqrt = self.schedule == "inverse-sqrt"
            default, epsilon = (0.98, 1e-9) if is_inverse_sqrt else (0.999, 1e-7)
            beta_2 = default if self.beta_2 is None else self.beta_2
            return keras.optimizers.Adam(rate, beta_2=beta_2, epsilon=epsilon, **options)
        if self.optimizer == "nesterov":
            return keras.optimizers.SGD(rate, momentum=0.99, nesterov=True, **options)
        if self.optimizer == "adadelta":
            return keras.optimizers.Adadelta(rate, rho=0.95, epsilon=1e-6, **options)
        kinds = {"sgd": keras.optimizers.SGD, "rmsprop": keras.optimizers.RMSprop}
        return kinds[self.optimizer](rate, **options)

    def make_callbacks(self, directory: pathlib.Path) -> tuple[keras.callbacks.Callback, ...]:
        if self.schedule != "plateau":
            return ()
        factor, patience = self.plateau_factor or 0.5, self.plateau_patience or 2
        return (Plateau(directory, self.monitor, factor, patience),)

    def make_rate(self, batches_per_epoch: int):
        """Returns the learning rate, a float or a schedule."""
        rate = self.learning_rate or OPTIMIZERS[self.optimizer]
        if self.schedule == "inverse-sqrt":
            units, scale = self.model_options["units"], self.learning_rate or 1.0
            rate = schedules.InverseSqrtSchedule(units, self.warmup or 4000, scale)
        elif self.schedule == "halving":
            start, every = self.lr_decay_start or 5.0, self.lr_decay_every or 1.0
            rate = schedules.halve_after_epoch(rate, start, batches_per_epoch, every)
        return schedules.cool_down(rate, self.epochs, self.decay_epochs, batches_per_epoch)
