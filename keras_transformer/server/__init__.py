"""The local REST server: TF Serving's interface over one exported model, without Docker."""
