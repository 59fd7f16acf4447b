"""Networks as graphs: read from ONNX, compiled as for the device, timed."""
