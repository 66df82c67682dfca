"""The customers' wire formats: each turns rebuilt choices into its own events, answers and errors; none does I/O."""
