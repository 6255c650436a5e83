"""Read and check the arguments that users pass: scalars, arrays, keywords; errors name the argument."""
