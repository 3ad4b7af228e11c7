"""Training: examples, fitting, export to ONNX."""
