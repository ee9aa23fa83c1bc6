"""Copies weights of our layers into PyTorch's modules."""

import keras
import numpy as np
import torch


def array(weight):
    return keras.ops.convert_to_numpy(weight)


def assign(parameter, value):
    with torch.no_grad():
        parameter.copy_(torch.from_numpy(np.ascontiguousarray(value)))


def assign_dense(linear, *layers):
    """One linear map from dense layers side by side."""
    assign(linear.weight, np.concatenate([array(layer.kernel) for layer in layers], axis=1).T)
    if linear.bias is not None:
        assign(linear.bias, np.concatenate([array(layer.bias) for layer in layers]))


def draw_weights(model, scale):
    """Gives a model normal weights, biases too, which begin at zero, and positive variances."""
    generator = np.random.default_rng(3)
    for weight in model.weights:
        value = generator.normal(scale=scale, size=weight.shape)
        weight.assign(0.5 + np.abs(value) if weight.name == "moving_variance" else value)
