"""The Neural Turing Machine in NumPy, as the paper writes it: a row, a head, a slot at a time."""

import numpy as np


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softplus(x):
    return np.log1p(np.exp(x))


def softmax(x):
    return np.exp(x - x.max()) / np.exp(x - x.max()).sum()


def values(variable):
    return np.array(variable, "float64")


def control(controller, inputs, states):
    """Returns the output of an LSTM cell or a dense layer with tanh, and the new states."""
    if not states:
        return np.tanh(inputs @ values(controller.kernel) + values(controller.bias)), []
    hidden, carry = states
    both = inputs @ values(controller.kernel) + hidden @ values(controller.recurrent_kernel)
    entry, forget, candidate, leave = np.split(both + values(controller.bias), 4)
    carry = sigmoid(forget) * carry + sigmoid(entry) * np.tanh(candidate)
    hidden = sigmoid(leave) * np.tanh(carry)
    return hidden, [hidden, carry]


def shift_shares(cell, raw):
    """Returns the dict of every whole shift to its share."""
    max_shift = cell.shift.max_shift
    if type(cell.shift).__name__ == "SoftmaxShift":
        return dict(zip(range(-max_shift, max_shift + 1), softmax(raw), strict=True))
    z = raw[0] if max_shift is None else max_shift * np.tanh(raw[0])
    whole = int(np.floor(z))
    return {whole: 1 - (z - whole), whole + 1: z - whole}


def address(cell, told, memory, previous):
    """Returns the weights of a head, equations 5 to 9."""
    memory_size = cell.memory_size
    cosines = [
        told["key"] @ slot / (np.linalg.norm(told["key"]) * np.linalg.norm(slot)) for slot in memory
    ]
    content = softmax(softplus(told["strength"][0]) * np.array(cosines))
    gate = sigmoid(told["gate"][0])
    gated = gate * content + (1 - gate) * previous
    shifted = np.zeros(memory_size)
    for shift, share in shift_shares(cell, told["shift"]).items():
        for i in range(memory_size):
            shifted[i] += share * gated[(i - shift) % memory_size]
    sharpened = shifted ** (1 + softplus(told["sharpening"][0]))
    return sharpened / sharpened.sum()


def tell(cell, row):
    """Returns, for every head, the dict of its part of the row; read heads come first."""
    width, reads, writes = cell.word_size, cell.num_read_heads, cell.num_write_heads
    bend = np.tanh if cell.head_activation == "tanh" else lambda x: x
    row = np.clip(row, -20, 20)
    told, begin = [{} for _ in range(reads + writes)], 0
    sizes = {"key": width, "strength": 1, "gate": 1, "sharpening": 1, "shift": cell.shift.size}
    for name, size in {**sizes, "erase": width, "addition": width}.items():
        for head in range(reads if name in ("erase", "addition") else 0, reads + writes):
            told[head][name] = row[begin : begin + size]
            begin += size
    assert begin == len(row)
    for head in told:
        head["key"] = bend(head["key"])
    for head in told[reads:]:
        head["erase"], head["addition"] = sigmoid(head["erase"]), bend(head["addition"])
    return told


def one_row(cell, x, state):
    """Returns the output and the new state of one row of the batch."""
    reads, memory = state["reads"], state["memory"]
    fed = np.concatenate([x, *reads])
    hidden, controller = control(cell.controller, fed, state["controller"])
    told = tell(cell, hidden @ values(cell.head_kernel) + values(cell.head_bias))
    previous = [*state["read_weights"], *state["write_weights"]]
    weights = [address(cell, *pair) for pair in _with_memory(told, memory, previous)]
    reading, writing = weights[: cell.num_read_heads], weights[cell.num_read_heads :]
    written = memory.copy()
    for head, w in zip(told[cell.num_read_heads :], writing, strict=True):
        for i in range(cell.memory_size):
            written[i] = written[i] * (1 - w[i] * head["erase"])
    for head, w in zip(told[cell.num_read_heads :], writing, strict=True):
        for i in range(cell.memory_size):
            written[i] = written[i] + w[i] * head["addition"]
    source = written if cell.read_from == "written" else memory
    reads = [sum(w[i] * source[i] for i in range(cell.memory_size)) for w in reading]
    output = np.concatenate([hidden, *reads]) @ values(cell.output_kernel)
    state = {
        "controller": controller,
        "memory": written,
        "reads": np.array(reads),
        "read_weights": np.array(reading),
        "write_weights": np.array(writing),
    }
    return sigmoid(output + values(cell.output_bias)), state


def _with_memory(told, memory, previous):
    return [(head, memory, before) for head, before in zip(told, previous, strict=True)]
