"""SavedModel export for TensorFlow Serving."""
