"""What users give, read once and refused by name: scalars, arrays, keywords."""
