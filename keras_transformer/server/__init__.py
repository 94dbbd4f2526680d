"""Local REST server for one exported model with TensorFlow Serving's interface."""
