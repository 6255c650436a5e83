"""Echo cancellation: three online learners on a coloured signal and its echo.

The voice of the far end leaves a loudspeaker and returns through the microphone. The room is a filter, so the echo is a linear
regression on the last samples played. Speech is coloured: neighbouring samples are similar, and gradient steps are slow in the
directions in which the signal has little power. Recursive least squares does not have this problem.
"""

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from scipy.signal import lfilter

import probreg as pr
import probreg.online as online

rng = np.random.default_rng(7)
taps, n, window = 64, 10_000, 400
room = rng.standard_normal(taps) * np.exp(-np.arange(taps) / 12)
room /= np.linalg.norm(room)
colour = 0.95
far_end = lfilter([1.0], [1.0, -colour], rng.standard_normal(n))  # AR(1)
echo = np.convolve(far_end, room)[:n]
# noise 40 dB below the echo
microphone = echo + 0.01 * echo.std() * rng.standard_normal(n)

line = online.lags(far_end, taps, delay=0, target=microphone)
power = (line.X**2).sum(axis=1)
learners = {
    "LMS": online.lms(0.5 / power.max()),  # half of what its theorem allows
    "NLMS": online.nlms(0.5),
    "RLS": online.rls(precision=1e-3),
}
paths = {
    name: online.run(learner, line.X, line.y) for name, learner in learners.items()
}
gains = {
    name: online.echo_return_loss(line.y, line.y - p.predictions, window=window)
    for name, p in paths.items()
}
final = {name: float(gain[-1]) for name, gain in gains.items()}
distance = {
    name: float(np.linalg.norm(path.state.w - room) / np.linalg.norm(room))
    for name, path in paths.items()
}
for name in learners:
    print(
        f"{name:5s} echo return loss {final[name]:5.1f} dB at the end, path within {distance[name]:.2%} of the room"
    )
print(paths["LMS"].guarantee())

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
styles = {"LMS": ("0.6", ":"), "NLMS": ("0.4", "--"), "RLS": ("0.0", "-")}
rounds = np.arange(window, len(line.y) + 1)
right.semilogy(np.abs(room), color="0.85", linewidth=4, label="the room itself")
for name, (grey, dash) in styles.items():
    left.plot(rounds, gains[name], color=grey, linestyle=dash, linewidth=2, label=name)
    right.semilogy(
        np.abs(paths[name].state.w - room),
        color=grey,
        linestyle=dash,
        linewidth=1.8,
        label=name,
    )
left.axhline(40, color="0.8", linewidth=1, zorder=0)
left.annotate("noise, 40 dB below the echo", (len(line.y), 45), ha="right", color="0.4")
left.set(
    xlabel="samples heard",
    ylabel=f"echo return loss enhancement (dB, {window} samples)",
    ylim=(0, 48),
)
left.legend(loc="lower right", frameon=False)
right.set(
    xlabel="delay (samples)",
    ylabel="distance of each weight from the room's",
    ylim=(1e-6, 10),
)
right.legend(ncols=2, loc="upper right", frameon=False)
figure.savefig("echo.png", dpi=120)
plt.close(figure)

# The same rows by another name: a signal regressed on its own past. The weights of a second pass, averaged, have forgotten
# where they began.
truth = np.array([1.2, -0.6])
signal = lfilter([1.0], np.r_[1.0, -truth], rng.standard_normal(20_000))
own = online.lags(signal, 2)
closed = pr.fit(
    pr.Model.from_arrays(own.X, own.y, columns=list(own.columns), intercept=False)
)
print(closed.summary())
ways = {
    "LMS": online.run(online.lms(0.0005), own.X, own.y, passes=2).average(last=0.5),
    "NLMS": online.run(online.nlms(0.005, eps=1.0), own.X, own.y, passes=2).average(
        last=0.5
    ),
    "RLS": online.run(online.rls(), own.X, own.y).state.w,
}
# Normalised steps count a row less the longer it is: what they come to is least squares with weights 1 / (1 + ||x||^2).
root = 1 / np.sqrt(1 + (own.X**2).sum(axis=1))
weighted = np.linalg.lstsq(own.X * root[:, None], own.y * root, rcond=None)[0]
from_weighted = float(np.abs((ways["NLMS"] - weighted) / closed.std_error).max())
apart = {
    name: float(np.abs((w - closed.coef) / closed.std_error).max())
    for name, w in ways.items()
}
for name, w in ways.items():
    print(
        f"{name:5s} {w.round(4)}, at most {apart[name]:.2g} standard errors from least squares"
    )
print(
    f"NLMS is {from_weighted:.2g} standard errors from the weighted least squares it tends to"
)

# Checks of the statements above.
assert final["RLS"] > final["NLMS"] + 1
assert final["NLMS"] > final["LMS"] + 3  # dB
assert final["RLS"] > 38  # what is left is the noise
assert distance["RLS"] < 0.01
assert distance["NLMS"] < 0.10
assert distance["LMS"] < 0.50
assert paths["LMS"].guarantee().applies
assert paths["LMS"].guarantee().holds
assert apart["RLS"] < 1e-6  # the same estimate, recursively
assert apart["LMS"] < 0.3  # standard errors; what is left is of the order of the step
assert from_weighted < 0.3
assert apart["NLMS"] < 3  # both estimate the truth, from other weights of the rows
assert np.abs((closed.coef - truth) / closed.std_error).max() < 3
