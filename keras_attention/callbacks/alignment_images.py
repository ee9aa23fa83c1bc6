"""Draws attention weights into TensorBoard while a model is trained."""

import importlib.util
import io
import os
from collections.abc import Callable, Iterable, Sequence

import keras
import numpy.typing as npt

from keras_attention import plotting, validation
from keras_attention.validation import missing_package_error

Alignment = tuple[npt.ArrayLike, Sequence[str | bytes], Sequence[str | bytes]]


class AlignmentImages(keras.callbacks.Callback):
    """Writes a figure of attention weights into TensorBoard's event files after each epoch.

    One can watch an alignment appear. Read the images with `tensorboard --logdir DIR`, in the tab
    Images; the scalars of `keras.callbacks.TensorBoard` may be in the same folder.

    Args:
        log_dir: Folder of the event files.
        align: Function without arguments that returns alignments, computed with the current
            weights: tuples `(weights, source_tokens, target_tokens)` as
            `keras_attention.plotting.plot_alignments` takes them.
        tag: Str, the name of the images.
        freq: Positive int, the number of epochs from one figure to the next.

    Raises:
        ImportError: If matplotlib or TensorFlow, which writes the files, is not installed.
        ValueError: If an argument or an alignment is invalid.

    Example:

    >>> import pathlib, tempfile, numpy as np
    >>> from keras_attention import BahdanauAttention
    >>> value, query = np.ones((1, 3, 2), "float32"), np.ones((1, 2, 2), "float32")
    >>> attention = BahdanauAttention(4)
    >>> def align():
    ...     _, weights = attention(query, value, return_attention_scores=True)
    ...     return [(keras.ops.convert_to_numpy(weights)[0], ["ein", "Hund", "."], ["a", "dog"])]
    >>> directory = tempfile.mkdtemp()
    >>> model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    >>> model.compile("sgd", "mse")
    >>> history = model.fit(
    ...     np.ones((2, 1)), np.ones((2, 1)), verbose=0,
    ...     callbacks=[AlignmentImages(directory, align)],
    ... )
    >>> len(list(pathlib.Path(directory).glob("events.out.tfevents.*")))
    1
    """

    def __init__(
        self,
        log_dir: str | os.PathLike[str],
        align: Callable[[], Iterable[Alignment]],
        tag: str = "alignments",
        freq: int = 1,
    ) -> None:
        super().__init__()
        owner = "AlignmentImages"
        if not callable(align):
            raise ValueError(
                f"{owner} expects `align` to be a function without arguments that returns tuples "
                f"(weights, source_tokens, target_tokens). Received: align={align!r}"
            )
        self.log_dir: str = os.fspath(log_dir)
        self.align: Callable[[], Iterable[Alignment]] = align
        self.tag: str = tag
        self.freq: int = validation.check_positive_int(owner, "freq", freq)
        if importlib.util.find_spec("matplotlib") is None:
            raise missing_package_error(owner, "matplotlib", "plot")
        if importlib.util.find_spec("tensorflow") is None:
            raise missing_package_error(owner, "tensorflow", "export")
        self._writer = None

    def on_epoch_end(self, epoch: int, logs: dict[str, float] | None = None) -> None:
        if (epoch + 1) % self.freq:
            return
        import tensorflow as tf

        file = io.BytesIO()
        plotting.plot_alignments(list(self.align())).savefig(file, format="png")
        if self._writer is None:
            self._writer = tf.summary.create_file_writer(self.log_dir)
        image = tf.image.decode_png(file.getvalue(), channels=3)
        with self._writer.as_default():
            tf.summary.image(self.tag, image[None], step=epoch)
        self._writer.flush()

    def on_train_end(self, logs: dict[str, float] | None = None) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None
