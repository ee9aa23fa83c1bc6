"""The seed of what a test draws."""

import random

import numpy as np


def set_seed(seed):
    """Seeds Python and NumPy, from which Keras draws the seeds of initializers and layers.

    `keras.utils.set_random_seed` seeds TensorFlow too, which forgets every operation that it has
    prepared: a fifth of the time of tests that run eagerly. It is needed where `fit` shuffles.
    """
    random.seed(seed)
    np.random.seed(seed)
