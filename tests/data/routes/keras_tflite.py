"""Keras networks by TensorFlow's converter: TFLite files of every kind of quantization.

Made with Python 3.11, tensorflow-cpu==2.21.0, tf_keras==2.21.0, ai-edge-litert==2.3.0, numpy==2.4.6:

    pip install tensorflow-cpu==2.21.0 tf_keras==2.21.0 ai-edge-litert==2.3.0 numpy==2.4.6
    python keras_tflite.py [NAME...]        # default: all cases, half an hour on one core

Inputs and outputs are rows of batch 1. The outputs are those of LiteRT's reference
kernels. Recurrent layers become the fused sequence operators only with the Keras 2 API (tf_keras).
"""

import os
import sys

os.environ["TF_USE_LEGACY_KERAS"] = "1"
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = ""

import numpy as np
import tensorflow as tf
from ai_edge_litert.interpreter import Interpreter, OpResolverType
from tf_keras import Model, layers

from common import FILES, check_sizes, rng, save_arrays

ROWS = 8
IMAGE, SEQUENCE = (12, 12, 3), (9, 6)


def cnn():
    """Images to five classes: batch normalization, a depthwise filter, a residual connection, HardSwish, pooling."""
    x = image = layers.Input(IMAGE, batch_size=1)
    x = layers.Conv2D(8, 3, strides=2, padding="same", use_bias=False)(x)
    x = layers.ReLU(6.0)(layers.BatchNormalization()(x))
    y = layers.DepthwiseConv2D(3, padding="same", use_bias=False)(x)
    y = layers.ReLU(6.0)(layers.BatchNormalization()(y))
    y = layers.BatchNormalization()(layers.Conv2D(8, 1, use_bias=False)(y))
    x = layers.Add()([x, y])
    x = layers.Conv2D(12, 3, padding="valid")(x)
    x = layers.AveragePooling2D(2)(layers.ReLU()(x))
    x = layers.Concatenate()([layers.Flatten()(x), layers.GlobalMaxPooling2D()(y)])
    return Model(image, layers.Dense(5, activation="softmax")(x))


def attention():
    """A gate by channel, HardSwish and a resized map: what mobile networks add to convolutions."""
    x = image = layers.Input(IMAGE, batch_size=1)
    x = layers.Conv2D(8, 3, strides=2, padding="same")(x)
    x = x * tf.nn.relu6(x + 3.0) * (1.0 / 6.0)
    gate = layers.Dense(8, activation="sigmoid")(layers.GlobalAveragePooling2D()(x))
    x = layers.Multiply()([x, layers.Reshape((1, 1, 8))(gate)])
    x = layers.UpSampling2D(2, interpolation="bilinear")(x)
    return Model(image, layers.Conv2D(2, 3, padding="same", activation="tanh")(x))


def lstm():
    """Sequences to four classes."""
    x = sequence = layers.Input(SEQUENCE, batch_size=1)
    x = layers.LSTM(8, return_sequences=True)(x)
    return Model(sequence, layers.Dense(4, activation="softmax")(layers.Flatten()(x)))


def gru():
    """Sequences to four classes by a GRU, which the converter writes out step by step."""
    x = sequence = layers.Input(SEQUENCE, batch_size=1)
    x = layers.GRU(6, unroll=True)(x)
    return Model(sequence, layers.Dense(4)(x))


def seeded(make, random):
    """A network with weights from `random`."""
    network = make()
    for layer in network.layers:
        layer.set_weights([draw(w, random, layer) for w in layer.get_weights()])
    return network


def draw(weight, random, layer):
    fan_in = max(int(np.prod(weight.shape[:-1])), 4)
    values = random.normal(0.0, fan_in**-0.5, weight.shape).astype(np.float32)
    # Scales and variances of batch normalization are positive.
    return np.exp(0.4 * values) if isinstance(layer, layers.BatchNormalization) else values


def samples(network, random, rows):
    return random.normal(0.0, 1.0, (rows, *network.input_shape[1:])).astype(np.float32)


def converted(network, kind, random):
    """The bytes of the TFLite file."""
    converter = tf.lite.TFLiteConverter.from_keras_model(network)
    if kind != "float":
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
    if kind in ("int8", "uint8io", "int16x8"):
        calibration = samples(network, random, 32)
        converter.representative_dataset = lambda: ([row[None]] for row in calibration)
        converter.target_spec.supported_ops = [OPERATORS[kind]]
    if kind in ("int8", "uint8io", "int16x8"):
        ends = {"int8": tf.int8, "uint8io": tf.uint8, "int16x8": tf.int16}[kind]
        converter.inference_input_type = converter.inference_output_type = ends
    return converter.convert()


OPERATORS = {
    "int8": tf.lite.OpsSet.TFLITE_BUILTINS_INT8,
    "uint8io": tf.lite.OpsSet.TFLITE_BUILTINS_INT8,
    "int16x8": tf.lite.OpsSet.EXPERIMENTAL_TFLITE_BUILTINS_ACTIVATIONS_INT16_WEIGHTS_INT8,
}


def run(path, rows):
    """Outputs of LiteRT's reference kernels, row by row, with the inputs as the network takes them."""
    interpreter = Interpreter(str(path), experimental_op_resolver_type=OpResolverType.BUILTIN_REF, num_threads=1)
    interpreter.allocate_tensors()
    (source,), (target,) = interpreter.get_input_details(), interpreter.get_output_details()
    fed, outputs = [], []
    for row in rows:
        interpreter.reset_all_variables()
        x = row[None]
        if source["dtype"] != np.float32:
            scale, zero_point = source["quantization"]
            limits = np.iinfo(source["dtype"])
            x = np.clip(np.rint(x / scale) + zero_point, limits.min, limits.max).astype(source["dtype"])
        interpreter.set_tensor(source["index"], x)
        interpreter.invoke()
        fed.append(x)
        outputs.append(interpreter.get_tensor(target["index"]).copy())
    return np.concatenate(fed), np.concatenate(outputs)


CASES = {
    "cnn": (cnn, ("float", "dynamic", "int8", "uint8io", "int16x8")),
    "attention": (attention, ("float", "int8")),
    "lstm": (lstm, ("float", "dynamic", "int8")),
    "gru": (gru, ("float",)),
}


def main():
    FILES.mkdir(exist_ok=True)
    for network_name, (make, kinds) in CASES.items():
        for kind in kinds:
            name = f"keras_{network_name}_{kind}"
            if sys.argv[1:] and name not in sys.argv[1:]:
                continue
            network = seeded(make, rng(network_name))
            path = FILES / f"{name}.tflite"
            path.write_bytes(converted(network, kind, rng(name)))
            fed, outputs = run(path, samples(network, rng(f"{name} rows"), ROWS))
            steps = [] if kind == "float" else [1.0] if outputs.dtype != np.float32 else [np.ptp(outputs) / 255]
            save_arrays(name, [fed], [outputs], steps)
            check_sizes(name, ".tflite")


if __name__ == "__main__":
    main()
