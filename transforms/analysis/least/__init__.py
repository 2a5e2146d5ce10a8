"""The least that devices have to send, whatever program does what is annotated: docs/least.md has the proof."""
