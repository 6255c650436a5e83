"""Online learning of an echo: least mean squares and its bound on the loss.

A loudspeaker plays noise into a room; a microphone hears its echo. Least mean squares on the last samples played learns
the room's response. Its loss stays below Widrow and Hoff's bound, in any order of rounds, for any noise.
"""

import numpy as np

import probreg.online as online

rng = np.random.default_rng(1)
taps, n = 8, 4000
room = rng.standard_normal(taps) * 0.7 ** np.arange(taps)
played = rng.standard_normal(n + taps - 1)
# row t holds the last samples played
X = np.lib.stride_tricks.sliding_window_view(played, taps)[:, ::-1]
heard = X @ room + 0.1 * rng.standard_normal(n)

# The step that minimises the bound, for rows of norm at most r and a response of the room of norm at most 2.
r = float(np.sqrt((X**2).sum(axis=1).max()))
learners = {
    "LMS, step by theory": online.lms(online.additive_step(r, 2.0, 0.01 * n)),
    "implicit step": online.implicit_lms(0.05),
    "normalised LMS": online.nlms(0.2),
    "recursive least squares": online.rls(precision=1.0),
}
paths = {name: online.run(learner, X, heard) for name, learner in learners.items()}
for name, path in paths.items():
    regret = path.regret()
    print(
        f"{name}: loss {path.loss:.1f}, of which regret {regret.value:.1f} against the best fixed weights"
    )
    print(path.guarantee())

# The same stream in pieces, as it would come from a device, and the room moved half way: forgetting follows it.
moved = heard.copy()
moved[n // 2 :] += X[n // 2 :] @ (room[::-1] - room)
blocks = ((X[i : i + 100], moved[i : i + 100]) for i in range(0, n, 100))
follows = online.run(online.rls(0.99, precision=1.0), blocks)
keeps = online.run(online.rls(precision=1.0), X, moved)
print(
    f"after the room moved: loss {follows.loss:.0f} with forgetting, {keeps.loss:.0f} without"
)

# A perceptron on classes a line separates: its mistakes and Novikoff's bound.
Z = rng.standard_normal((300, 2))
Z = np.column_stack([Z, np.ones(300)])[np.abs(Z @ [1.0, -1.0] + 0.5) > 0.3]
side = np.where(Z @ [1.0, -1.0, 0.5] > 0, 1, -1)
perceptron = online.run(online.perceptron(), Z, side, passes=100)
print(perceptron.status.value)
print(perceptron.guarantee())

# Checks of the statements above.
assert all(
    path.guarantee().applies and path.guarantee().holds for path in paths.values()
)
assert all(
    np.allclose(path.average(last=0.25), room, atol=0.05) for path in paths.values()
)
assert np.allclose(follows.state.w, room[::-1], atol=0.1)
assert follows.loss < keeps.loss
assert perceptron.status is online.RunStatus.SEPARATED
assert perceptron.mistakes <= perceptron.guarantee().bound
