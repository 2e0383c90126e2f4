"""Outputs and gradients of modules and losses are those of eager mode."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
import torch
from hazards.gradients import Inputs, known, numbers, positive, same_gradients
from hazards.harness import values
from torch import nn

# Modules: name, how to make it, its inputs.
ACTIVATIONS = (
    "ELU CELU SELU GELU ReLU ReLU6 LeakyReLU Hardshrink Hardsigmoid Hardswish Hardtanh LogSigmoid Mish PReLU Sigmoid"
    " SiLU Softplus Softshrink Softsign Tanh Tanhshrink Identity"
).split()
WITH_OPTIONS: dict[str, tuple[Callable[[], nn.Module], Inputs]] = {
    "GELU-tanh": (lambda: nn.GELU("tanh"), lambda: [values(3, 5)]),
    "GLU": (lambda: nn.GLU(), lambda: [values(3, 6)]),
    "Threshold": (lambda: nn.Threshold(0.1, 20), lambda: [values(3, 5)]),
    "ReLU-in-place": (lambda: nn.Sequential(nn.Linear(5, 4), nn.ReLU(inplace=True)), lambda: [values(3, 5)]),
    "LeakyReLU-in-place": (
        lambda: nn.Sequential(nn.Linear(5, 4), nn.LeakyReLU(0.2, inplace=True)),
        lambda: [values(3, 5)],
    ),
    "RReLU-eval": (lambda: nn.RReLU().eval(), lambda: [values(3, 5)]),
    "Softmax2d": (lambda: nn.Softmax2d(), lambda: [values(2, 3, 4, 4)]),
    "AdaptiveLogSoftmax": (
        lambda: nn.AdaptiveLogSoftmaxWithLoss(8, 10, [4, 7]),
        lambda: [values(6, 8), numbers(6, high=10)],
    ),
}
LAYERS: dict[str, tuple[Callable[[], nn.Module], Inputs]] = {
    "Linear": (lambda: nn.Linear(5, 4), lambda: [values(3, 5)]),
    "Linear-3d": (lambda: nn.Linear(5, 4, bias=False), lambda: [values(2, 3, 5)]),
    "Bilinear": (lambda: nn.Bilinear(5, 4, 3), lambda: [values(2, 5), values(2, 4, seed=1)]),
    "Conv1d": (lambda: nn.Conv1d(4, 6, 3, stride=2, padding=1, groups=2), lambda: [values(2, 4, 9)]),
    "Conv2d": (lambda: nn.Conv2d(3, 4, 3, padding=1, dilation=2), lambda: [values(2, 3, 8, 8)]),
    "Conv2d-depthwise": (lambda: nn.Conv2d(4, 4, 3, groups=4, bias=False), lambda: [values(2, 4, 6, 6)]),
    "Conv2d-reflect": (lambda: nn.Conv2d(3, 4, 3, padding=1, padding_mode="reflect"), lambda: [values(2, 3, 6, 6)]),
    "Conv2d-circular": (lambda: nn.Conv2d(3, 4, 3, padding=1, padding_mode="circular"), lambda: [values(2, 3, 6, 6)]),
    "Conv2d-same": (lambda: nn.Conv2d(3, 4, 3, padding="same"), lambda: [values(2, 3, 6, 6)]),
    "Conv3d": (lambda: nn.Conv3d(2, 3, 2), lambda: [values(1, 2, 4, 4, 4)]),
    "ConvTranspose1d": (lambda: nn.ConvTranspose1d(3, 4, 3, stride=2), lambda: [values(2, 3, 5)]),
    "ConvTranspose2d": (
        lambda: nn.ConvTranspose2d(4, 2, 3, stride=2, padding=1, output_padding=1, groups=2),
        lambda: [values(2, 4, 5, 5)],
    ),
    "ConvTranspose3d": (lambda: nn.ConvTranspose3d(2, 3, 2), lambda: [values(1, 2, 3, 3, 3)]),
    "MaxPool1d": (lambda: nn.MaxPool1d(2), lambda: [values(2, 3, 8)]),
    "MaxPool2d": (lambda: nn.MaxPool2d(3, stride=2, padding=1), lambda: [values(2, 3, 8, 8)]),
    "MaxPool2d-dilated": (lambda: nn.MaxPool2d(2, dilation=2), lambda: [values(2, 3, 8, 8)]),
    "MaxPool2d-ceil": (lambda: nn.MaxPool2d(3, stride=2, ceil_mode=True), lambda: [values(2, 3, 8, 8)]),
    "MaxPool3d": (lambda: nn.MaxPool3d(2), lambda: [values(1, 2, 4, 4, 4)]),
    "AvgPool1d": (lambda: nn.AvgPool1d(2), lambda: [values(2, 3, 8)]),
    "AvgPool2d": (lambda: nn.AvgPool2d(3, stride=2, padding=1), lambda: [values(2, 3, 8, 8)]),
    "AvgPool2d-no-pad": (
        lambda: nn.AvgPool2d(3, 2, 1, ceil_mode=True, count_include_pad=False),
        lambda: [values(2, 3, 8, 8)],
    ),
    "AvgPool3d": (lambda: nn.AvgPool3d(2), lambda: [values(1, 2, 4, 4, 4)]),
    "LPPool2d": (lambda: nn.LPPool2d(2, 2), lambda: [positive(2, 3, 4, 4)]),
    "FractionalMaxPool2d": (
        lambda: nn.FractionalMaxPool2d(2, output_size=3, _random_samples=torch.full((2, 3, 2), 0.4)),
        lambda: [values(2, 3, 8, 8)],
    ),
    "AdaptiveAvgPool1d": (lambda: nn.AdaptiveAvgPool1d(3), lambda: [values(2, 3, 7)]),
    "AdaptiveAvgPool2d": (lambda: nn.AdaptiveAvgPool2d(1), lambda: [values(2, 3, 6, 6)]),
    "AdaptiveAvgPool2d-3": (lambda: nn.AdaptiveAvgPool2d((3, 2)), lambda: [values(2, 3, 6, 6)]),
    "AdaptiveAvgPool2d-odd": (lambda: nn.AdaptiveAvgPool2d((4, 5)), lambda: [values(2, 3, 6, 7)]),
    "AdaptiveMaxPool2d": (lambda: nn.AdaptiveMaxPool2d((3, 2)), lambda: [values(2, 3, 6, 6)]),
    "AdaptiveAvgPool3d": (lambda: nn.AdaptiveAvgPool3d(2), lambda: [values(1, 2, 4, 4, 4)]),
    "ReflectionPad1d": (lambda: nn.ReflectionPad1d(2), lambda: [values(2, 3, 5)]),
    "ReflectionPad2d": (lambda: nn.ReflectionPad2d((1, 2, 2, 1)), lambda: [values(2, 3, 5, 5)]),
    "ReflectionPad3d": (lambda: nn.ReflectionPad3d(1), lambda: [values(1, 2, 3, 3, 3)]),
    "ReplicationPad1d": (lambda: nn.ReplicationPad1d(2), lambda: [values(2, 3, 5)]),
    "ReplicationPad2d": (lambda: nn.ReplicationPad2d((1, 2, 2, 1)), lambda: [values(2, 3, 5, 5)]),
    "ReplicationPad3d": (lambda: nn.ReplicationPad3d(1), lambda: [values(1, 2, 3, 3, 3)]),
    "ConstantPad2d": (lambda: nn.ConstantPad2d((1, -1, 2, 0), 3.0), lambda: [values(2, 3, 5, 5)]),
    "CircularPad2d": (lambda: nn.CircularPad2d(1), lambda: [values(2, 3, 5, 5)]),
    "Upsample-nearest": (lambda: nn.Upsample(scale_factor=2), lambda: [values(2, 3, 4, 4)]),
    "Upsample-nearest-down": (lambda: nn.Upsample(size=(2, 3)), lambda: [values(2, 3, 4, 6)]),
    "Upsample-linear": (lambda: nn.Upsample(scale_factor=2, mode="linear"), lambda: [values(2, 3, 4)]),
    "Upsample-bilinear": (lambda: nn.Upsample(scale_factor=2, mode="bilinear"), lambda: [values(2, 3, 4, 4)]),
    "Upsample-bilinear-corners": (
        lambda: nn.Upsample(size=(7, 5), mode="bilinear", align_corners=True),
        lambda: [values(2, 3, 4, 4)],
    ),
    "Upsample-bicubic": (lambda: nn.Upsample(scale_factor=2, mode="bicubic"), lambda: [values(1, 2, 4, 4)]),
    "Upsample-trilinear": (lambda: nn.Upsample(scale_factor=2, mode="trilinear"), lambda: [values(1, 2, 3, 3, 3)]),
    "PixelShuffle": (lambda: nn.PixelShuffle(2), lambda: [values(2, 8, 3, 3)]),
    "PixelUnshuffle": (lambda: nn.PixelUnshuffle(2), lambda: [values(2, 2, 4, 4)]),
    "ChannelShuffle": (lambda: nn.ChannelShuffle(2), lambda: [values(2, 4, 3, 3)]),
    "Fold": (lambda: nn.Fold((4, 4), 2), lambda: [values(2, 12, 9)]),
    "Unfold": (lambda: nn.Unfold(2), lambda: [values(2, 3, 4, 4)]),
    "Embedding": (lambda: nn.Embedding(7, 4), lambda: [numbers(3, 5)]),
    "Embedding-padding": (lambda: nn.Embedding(7, 4, padding_idx=2), lambda: [numbers(3, 5)]),
    "Embedding-frequency": (lambda: nn.Embedding(7, 4, scale_grad_by_freq=True), lambda: [numbers(3, 5)]),
    "Embedding-max-norm": (lambda: nn.Embedding(7, 4, max_norm=1.0), lambda: [numbers(3, 5)]),
    "EmbeddingBag-sum": (lambda: nn.EmbeddingBag(7, 4, mode="sum"), lambda: [numbers(3, 5)]),
    "EmbeddingBag-mean": (lambda: nn.EmbeddingBag(7, 4, mode="mean"), lambda: [numbers(3, 5)]),
    "EmbeddingBag-max": (lambda: nn.EmbeddingBag(7, 4, mode="max"), lambda: [numbers(3, 5)]),
    "RNN": (lambda: nn.RNN(4, 3, 2, batch_first=True), lambda: [values(2, 2, 4)]),
    "RNN-relu": (lambda: nn.RNN(4, 3, nonlinearity="relu", bidirectional=True), lambda: [values(2, 2, 4)]),
    "LSTM": (lambda: nn.LSTM(4, 3, 1, bidirectional=True), lambda: [values(2, 2, 4)]),
    "LSTM-projection": (lambda: nn.LSTM(4, 3, proj_size=2), lambda: [values(2, 2, 4)]),
    "RNNCell": (lambda: nn.RNNCell(4, 3), lambda: [values(2, 4)]),
    "LSTMCell": (lambda: nn.LSTMCell(4, 3), lambda: [values(2, 4)]),
    # Not nn.GRU: torch_xla replaces it with one of its own, which does not run on the CPU.
    "GRUCell": (lambda: nn.GRUCell(4, 3), lambda: [values(2, 4), values(2, 3, seed=1)]),
    "MultiheadAttention": (
        lambda: nn.MultiheadAttention(8, 2, batch_first=True),
        lambda: [values(2, 5, 8), values(2, 4, 8, seed=1), values(2, 4, 8, seed=2)],
    ),
    "TransformerEncoderLayer": (
        lambda: nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True),
        lambda: [values(2, 5, 8)],
    ),
    "TransformerEncoderLayer-gelu-first": (
        lambda: nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, activation="gelu", norm_first=True),
        lambda: [values(5, 2, 8)],
    ),
    "TransformerDecoderLayer": (
        lambda: nn.TransformerDecoderLayer(8, 2, 16, dropout=0.0),
        lambda: [values(5, 2, 8), values(4, 2, 8, seed=1)],
    ),
    "Dropout-eval": (lambda: nn.Dropout(0.5).eval(), lambda: [values(3, 5) * 1]),
    "AlphaDropout-eval": (lambda: nn.AlphaDropout(0.5).eval(), lambda: [values(3, 5)]),
    "CosineSimilarity": (lambda: nn.CosineSimilarity(), lambda: [values(3, 5), values(3, 5, seed=1)]),
    "PairwiseDistance": (lambda: nn.PairwiseDistance(), lambda: [values(3, 5), values(3, 5, seed=1)]),
    "Flatten": (lambda: nn.Sequential(nn.Flatten(), nn.Linear(12, 2)), lambda: [values(2, 3, 4)]),
    "Unflatten": (lambda: nn.Unflatten(1, (2, 3)), lambda: [values(2, 6)]),
    "weight_norm": (
        lambda: nn.utils.parametrizations.weight_norm(nn.Linear(5, 4)),
        lambda: [values(3, 5)],
    ),
}
NORMS: dict[str, tuple[Callable[[], nn.Module], Inputs]] = {
    "BatchNorm1d": (lambda: nn.BatchNorm1d(4), lambda: [values(6, 4)]),
    "BatchNorm2d": (lambda: nn.BatchNorm2d(4), lambda: [values(6, 4, 3, 3)]),
    "BatchNorm2d-plain": (
        lambda: nn.BatchNorm2d(4, affine=False, track_running_stats=False),
        lambda: [values(6, 4, 3, 3)],
    ),
    "BatchNorm2d-eval": (lambda: nn.BatchNorm2d(4).eval(), lambda: [values(6, 4, 3, 3)]),
    "BatchNorm3d": (lambda: nn.BatchNorm3d(2), lambda: [values(3, 2, 2, 2, 2)]),
    "InstanceNorm1d": (lambda: nn.InstanceNorm1d(3, affine=True), lambda: [values(2, 3, 6)]),
    "InstanceNorm2d": (lambda: nn.InstanceNorm2d(3), lambda: [values(2, 3, 4, 4)]),
    "GroupNorm": (lambda: nn.GroupNorm(2, 4), lambda: [values(3, 4, 5)]),
    "GroupNorm-plain": (lambda: nn.GroupNorm(2, 4, affine=False), lambda: [values(3, 4, 5, 5)]),
    "LayerNorm": (lambda: nn.LayerNorm(5), lambda: [values(3, 5)]),
    "LayerNorm-2d": (lambda: nn.LayerNorm((3, 5)), lambda: [values(2, 3, 5)]),
    "LayerNorm-plain": (lambda: nn.LayerNorm(5, elementwise_affine=False), lambda: [values(3, 5)]),
    "LayerNorm-no-bias": (lambda: nn.LayerNorm(5, bias=False), lambda: [values(3, 5)]),
    "RMSNorm": (lambda: nn.RMSNorm(5), lambda: [values(3, 5)]),
    "LocalResponseNorm": (lambda: nn.LocalResponseNorm(2), lambda: [values(2, 4, 3, 3)]),
}
LOSSES: dict[str, tuple[Callable[[], nn.Module], Inputs]] = {
    "L1": (lambda: nn.L1Loss(), lambda: [values(3, 5), values(3, 5, seed=1)]),
    "MSE": (lambda: nn.MSELoss(), lambda: [values(3, 5), values(3, 5, seed=1)]),
    "MSE-sum": (lambda: nn.MSELoss(reduction="sum"), lambda: [values(3, 5), values(3, 5, seed=1)]),
    "MSE-none": (lambda: nn.MSELoss(reduction="none"), lambda: [values(3, 5), values(3, 5, seed=1)]),
    "SmoothL1": (lambda: nn.SmoothL1Loss(beta=0.7), lambda: [values(3, 5), values(3, 5, seed=1)]),
    "Huber": (lambda: nn.HuberLoss(delta=0.7), lambda: [values(3, 5), values(3, 5, seed=1)]),
    "CrossEntropy": (lambda: nn.CrossEntropyLoss(), lambda: [values(4, 5), numbers(4)]),
    "CrossEntropy-smoothed": (lambda: nn.CrossEntropyLoss(label_smoothing=0.1), lambda: [values(4, 5), numbers(4)]),
    "CrossEntropy-ignore": (lambda: nn.CrossEntropyLoss(ignore_index=2), lambda: [values(4, 5), numbers(4)]),
    "CrossEntropy-none": (lambda: nn.CrossEntropyLoss(reduction="none"), lambda: [values(4, 5), numbers(4)]),
    "CrossEntropy-weight": (
        lambda: nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2, 3, 4, 5])),
        lambda: [values(4, 5), numbers(4)],
    ),
    "CrossEntropy-soft": (lambda: nn.CrossEntropyLoss(), lambda: [values(4, 5), values(4, 5, seed=1).softmax(1)]),
    "CrossEntropy-2d": (lambda: nn.CrossEntropyLoss(), lambda: [values(2, 5, 3, 3), numbers(2, 3, 3)]),
    "NLL": (lambda: nn.NLLLoss(), lambda: [values(4, 5).log_softmax(1), numbers(4)]),
    "NLL-2d": (lambda: nn.NLLLoss(), lambda: [values(2, 5, 3, 3).log_softmax(1), numbers(2, 3, 3)]),
    "NLL-none": (lambda: nn.NLLLoss(reduction="none"), lambda: [values(4, 5).log_softmax(1), numbers(4)]),
    "PoissonNLL": (lambda: nn.PoissonNLLLoss(), lambda: [values(3, 5), positive(3, 5)]),
    "GaussianNLL": (lambda: nn.GaussianNLLLoss(), lambda: [values(3, 5), values(3, 5, seed=1), positive(3, 5)]),
    "KLDiv": (lambda: nn.KLDivLoss(reduction="batchmean"), lambda: [values(3, 5).log_softmax(1), positive(3, 5)]),
    "KLDiv-log": (
        lambda: nn.KLDivLoss(reduction="sum", log_target=True),
        lambda: [values(3, 5).log_softmax(1), values(3, 5, seed=1).log_softmax(1)],
    ),
    "BCE": (lambda: nn.BCELoss(), lambda: [positive(3, 5), positive(3, 5, seed=1)]),
    "BCE-weight": (
        lambda: nn.BCELoss(weight=torch.tensor([1.0, 2, 3, 4, 5]), reduction="sum"),
        lambda: [positive(3, 5), positive(3, 5, seed=1)],
    ),
    "BCEWithLogits": (
        lambda: nn.BCEWithLogitsLoss(pos_weight=torch.tensor([1.0, 2, 3, 4, 5])),
        lambda: [values(3, 5), positive(3, 5, seed=1)],
    ),
    "MarginRanking": (
        lambda: nn.MarginRankingLoss(0.3),
        lambda: [values(5), values(5, seed=1), numbers(5, high=2) * 2 - 1],
    ),
    "HingeEmbedding": (lambda: nn.HingeEmbeddingLoss(), lambda: [values(5), numbers(5, high=2) * 2 - 1]),
    "MultiLabelMargin": (
        lambda: nn.MultiLabelMarginLoss(),
        lambda: [values(2, 4), torch.tensor([[3, 0, -1, 1], [1, -1, 0, 2]])],
    ),
    "SoftMargin": (lambda: nn.SoftMarginLoss(), lambda: [values(5), numbers(5, high=2) * 2 - 1]),
    "MultiLabelSoftMargin": (lambda: nn.MultiLabelSoftMarginLoss(), lambda: [values(3, 4), positive(3, 4)]),
    "CosineEmbedding": (
        lambda: nn.CosineEmbeddingLoss(),
        lambda: [values(3, 5), values(3, 5, seed=1), torch.tensor([1, -1, 1])],
    ),
    "MultiMargin": (lambda: nn.MultiMarginLoss(), lambda: [values(4, 5), numbers(4)]),
    "TripletMargin": (
        lambda: nn.TripletMarginLoss(),
        lambda: [values(3, 5), values(3, 5, seed=1), values(3, 5, seed=2)],
    ),
    "CTC": (
        lambda: nn.CTCLoss(),
        lambda: [values(6, 2, 5).log_softmax(2), numbers(2, 3, high=4) + 1, torch.tensor([6, 6]), torch.tensor([3, 2])],
    ),
}
MODULES = {
    **{name: (getattr(nn, name), lambda: [values(3, 5) * 3]) for name in ACTIVATIONS},
    **WITH_OPTIONS,
    **LAYERS,
    **NORMS,
    **{f"{name}-loss": case for name, case in LOSSES.items()},
}
MODULES.update(
    (kind.__name__, (partial(kind, dim=1), lambda: [values(3, 5)])) for kind in (nn.Softmin, nn.Softmax, nn.LogSoftmax)
)


@pytest.mark.parametrize("name", known(MODULES))
def test_module(name: str) -> None:
    torch.manual_seed(0)
    make, inputs = MODULES[name]
    same_gradients(make(), inputs())
