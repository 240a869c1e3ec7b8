"""Prediction: time, energy and memory of a given assignment, without solving."""

from __future__ import annotations

from edgedla.placement.prediction.predict import Predictor, predict
from edgedla.placement.prediction.prediction import LoadableMemory, PredictedLoadable, PredictedStream, Prediction

__all__ = ["LoadableMemory", "PredictedLoadable", "PredictedStream", "Prediction", "Predictor", "predict"]
