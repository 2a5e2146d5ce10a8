"""Operations that XLA gets wrong or does not take, written so that it does not fail."""
