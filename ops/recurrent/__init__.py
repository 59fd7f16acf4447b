"""Recurrent layers: LSTM and GRU, step after step."""
