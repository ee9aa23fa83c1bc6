"""Trains the translators of `examples` on JAX, on a machine that need not have TensorFlow.

    python -m examples.jax_training pack rnnsearch --run runs/g2p --pairs train.tsv --epochs 20
    KERAS_BACKEND=jax python -m examples.jax_training fit runs/g2p --seeds 1 2 3
    python -m examples.jax_training finish runs/g2p --seed 1

`pack` and `finish` run where TensorFlow is; `fit` needs Keras, JAX and this project alone, and only
the file `training.npz` of the run.
"""
