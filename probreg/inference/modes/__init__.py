"""Methods that find a mode (closed form, Newton's method, stochastic gradients, the
perceptron) and checks that one exists."""
