"""What lives in the training process, beside the loop."""
