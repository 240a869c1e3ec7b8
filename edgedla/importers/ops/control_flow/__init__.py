"""Operators that become loops and conditions: If, Loop, Scan, CumSum, RNN, GRU, LSTM, and calls of functions."""

from __future__ import annotations
