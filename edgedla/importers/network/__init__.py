"""A stand-in for TensorRT's INetworkDefinition: one function per layer type, with its output dims and dtype."""

from __future__ import annotations
