"""What the examples share: recipes that say how to split, training steps, optimizers, runs that are compared."""
