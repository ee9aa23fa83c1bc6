"""Training: losses, the compiled step, schedules, checkpoints and the loop."""
