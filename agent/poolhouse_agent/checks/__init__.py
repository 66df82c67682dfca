"""What `doctor` looks at: each check says what it found and what to do, and never raises."""
