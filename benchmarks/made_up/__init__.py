"""Made-up programs of the operations that models use, with annotations here and there."""
