"""ONNX's own node tests: each is a model with inputs, and with the outputs that ONNX's authors expect."""
