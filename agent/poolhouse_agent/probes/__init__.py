"""What the operating system says about the machine: each reading is a value, or a reason why there is none."""
