"""Names of statsmodels, scikit-learn, PyMC, Bambi and R, and what does the same here."""

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from probreg.errors import suggestion

# attributes and methods of a fit
OF_FIT: Mapping[str, str] = (
    dict.fromkeys(("params", "params_", "coef_", "coefficients", "coefs", "fixef", "betas", "feature_names_in_"), "fit.coef")
    | dict.fromkeys(("bse", "se", "stderr", "std_err", "standard_errors"), "fit.std_error")
    | dict.fromkeys(("conf_int", "confint", "confidence_interval", "ci"), "fit.interval(0.95)")
    | dict.fromkeys(("pvalue", "pvalues", "p_values", "tvalues", "zvalues"), "fit.summary(), or probreg.hypothesis(fit, 'x = 0')")
    | dict.fromkeys(("cov_params", "vcov", "cov", "normalized_cov_params"), "fit.covariance()")
    | dict.fromkeys(("rsquared", "prsquared", "r2"), "fit.r_squared")
    | {"score": "fit.r_squared, or probreg.scores for predicted probabilities"}
    | dict.fromkeys(("rsquared_adj", "adj_r_squared"), "fit.adjusted_r_squared")
    | dict.fromkeys(("fvalue", "f_pvalue"), "fit.overall")
    | dict.fromkeys(("llf", "loglik", "logLik", "log_lik", "loglike"), "fit.log_likelihood")
    | dict.fromkeys(("resid", "resid_response", "resid_pearson", "resid_deviance"), "fit.residuals(kind)")
    | dict.fromkeys(("fittedvalues", "fitted_values"), "fit.fitted")
    | dict.fromkeys(("get_prediction", "predict_proba", "decision_function"), "fit.predict(table)")
    | dict.fromkeys(("posterior", "idata", "trace", "samples", "draws"), "fit.tree, an xarray.DataTree that ArviZ reads")
    | dict.fromkeys(("random_effects", "ranef", "group_effects"), "fit.effects()")
    | dict.fromkeys(("VarCorr", "cov_re", "vcomp"), "fit.hyper")
    | dict.fromkeys(("scale", "sigma", "dispersion"), "fit.aux")
    | dict.fromkeys(("t_test", "wald_test", "f_test", "linear_hypothesis", "linearHypothesis", "glht"), "probreg.hypothesis(fit, 'a = b')")
    | dict.fromkeys(("compare_lr_test", "compare_f_test"), "probreg.compare_models([fit, other], test='lr')")
    | {"anova": "probreg.anova(fit)"}
    | dict.fromkeys(("get_margeff", "margins", "avg_slopes", "marginal_effects"), "probreg.slopes(fit) or probreg.comparisons(fit)")
    | dict.fromkeys(("emmeans", "marginal_means"), "probreg.predictions(fit, by='g', grid='balanced')")
    | {"vif": "probreg.diagnostics.before.vif(model)"}
    | dict.fromkeys(("get_influence", "influence", "cooks_distance", "dffits", "hat_matrix_diag", "hat_values", "hatvalues", "outlier_test", "leverage"), "probreg.influence_measures(fit)")
    | dict.fromkeys(("plot_diagnostics", "plot", "plot_trace"), "probreg.plot, such as probreg.plot.diagnose(fit)")
    | dict.fromkeys(("get_robustcov_results", "HC0_se", "HC1_se", "HC2_se", "HC3_se"), "fit.summary(covariance='HC3')")
    | dict.fromkeys(("pp_check", "posterior_predictive", "sample_posterior_predictive"), "fit.predictive()")
    | dict.fromkeys(("waic", "elpd"), "fit.loo()")
    | {"n_obs": "fit.nobs", "df_model": "fit.n_parameters, which counts the intercept and sigma too"}
    | {"summary2": "fit.summary()", "plot_effects": "probreg.plot.effects(fit, condition=['x'])"}
    | dict.fromkeys(("mse_resid", "rmse"), "fit.residual_sd")
    | dict.fromkeys(("ssr", "rss"), "fit.deviance, the residual sum of squares of least squares")
    | dict.fromkeys(("converged", "mle_retvals", "n_iter_"), "fit.solution.status")
    | {"formula": "fit.model.design.recipe.formula", "exog": "fit.model.design.X", "endog": "fit.model.design.y"}
    | {"classes_": "fit.model.likelihood, which has the levels"}
    | {"intercept_": "fit.coef.sel(coef='Intercept')"}
)  # fmt: skip
# attributes and methods of a model
OF_MODEL: Mapping[str, str] = dict.fromkeys(
    ("fit", "fit_transform", "fit_regularized", "sample", "build"),
    "probreg.fit(model)",
) | {
    "exog": "model.design.X",
    "endog": "model.design.y",
    "loglike": "model.log_lik",
    "predict": "probreg.fit(model).predict()",
    "set_priors": "model.with_prior(prior)",
    "priors": "model.prior",
    "plot_priors": "model.prior_predictive()",
    "formula": "model.design.recipe.formula",
    "summary": "probreg.fit(model).summary()",
    "params": "probreg.fit(model).coef",
    "coef": "probreg.fit(model).coef",
    "simulate": "probreg.simulate(model, truth)",
}
# functions and classes of a package
OF_PACKAGE: Mapping[str, str] = (
    dict.fromkeys(("OLS", "WLS", "lm", "LinearRegression", "LeastSquares"), "probreg.ols('y ~ x', data)")
    | dict.fromkeys(("glm", "GLM"), "probreg.logistic, probreg.poisson, or probreg.fit(probreg.Model.from_formula('y ~ x', data, likelihood='gamma'))")
    | dict.fromkeys(("Logit", "logit", "LogisticRegression"), "probreg.logistic('y ~ x', data)")
    | dict.fromkeys(("Probit", "probit"), "likelihood=probreg.Bernoulli(link='probit')")
    | dict.fromkeys(("MNLogit", "multinom", "mnlogit", "SoftmaxRegression"), "probreg.softmax('y ~ x', data)")
    | dict.fromkeys(("lmer", "lme", "glmer", "mixedlm", "MixedLM", "mixed", "glmmTMB", "brm", "stan_glm", "stan_glmer"), "probreg.fit(probreg.Model.from_formula('y ~ x + (1 | g)', data))")
    | dict.fromkeys(("Ridge", "KernelRidge"), "probreg.ridge or probreg.kernel_ridge")
    | dict.fromkeys(("Lasso", "glmnet", "ElasticNet"), "probreg.lasso, probreg.elastic_net and probreg.path")
    | dict.fromkeys(("RidgeCV", "LassoCV", "ElasticNetCV", "LogisticRegressionCV", "cv"), "probreg.tune(model, 'cv')")
    | {"train_test_split": "sklearn.model_selection.train_test_split, or probreg.compare_models(fits) without a split"}
    | dict.fromkeys(("log_loss", "brier_score_loss", "brier_score"), "probreg.scores.log_score(y, p) or probreg.scores.brier(y, p)")
    | dict.fromkeys(("roc_auc_score", "roc_auc", "auc", "confusion_matrix"), "sklearn.metrics with the probabilities of fit.predict(table)")
    | dict.fromkeys(("cross_val_score", "cross_validate", "GridSearchCV"), "probreg.compare_models(fits)")
    | dict.fromkeys(("BayesianRidge", "ARDRegression"), "probreg.bayesian_ridge or probreg.ard")
    | dict.fromkeys(("SVR", "svm", "SVC", "LinearSVC"), "probreg.svr for a regression; there is no support vector classifier, so use probreg.logistic")
    | dict.fromkeys(("GaussianProcessRegressor", "GPR"), "probreg.gp")
    | dict.fromkeys(("QuantReg", "quantreg", "rq"), "probreg.quantile_regression('y ~ x', data, tau=0.5)")
    | dict.fromkeys(("RLM", "rlm", "HuberRegressor"), "likelihood='huber' or 'student'")
    | dict.fromkeys(("OrderedModel", "polr", "clm"), "likelihood=probreg.Ordinal()")
    | dict.fromkeys(("betareg", "BetaModel"), "likelihood=probreg.Beta()")
    | dict.fromkeys(("survreg", "Surv"), "likelihood=probreg.Weibull() with 'cens(time, event) ~ x'")
    | dict.fromkeys(("coxph", "PHReg", "CoxPHFitter"), "likelihood=probreg.Weibull() with 'cens(time, event) ~ x'; there is no Cox model")
    | dict.fromkeys(("glm_nb", "negative_binomial", "gamma", "beta", "binomial", "ordinal", "student", "weibull"), "probreg.fit(probreg.Model.from_formula('y ~ x', data, likelihood='gamma')), or another name of probreg.LIKELIHOODS")
    | dict.fromkeys(("adaline", "lms", "sgd", "perceptron", "newton", "laplace", "nuts", "pymc"), "a method, such as probreg.fit(model, 'lms'), or another name of probreg.METHODS")
    | dict.fromkeys(("zeroinfl", "ZeroInflatedPoisson"), "likelihood=probreg.ZeroInflated(probreg.Poisson())")
    | {"hurdle": "likelihood=probreg.Hurdle(probreg.Poisson())"}
    | dict.fromkeys(("SGDRegressor", "SGDClassifier"), "probreg.SGD, a method: probreg.fit(model, probreg.SGD())")
    | dict.fromkeys(("GLMGam", "s", "te"), "probreg.gam('y ~ s(x)', data)")
    | dict.fromkeys(("Anova", "anova_lm", "drop1"), "probreg.anova(fit)")
    | dict.fromkeys(("plot_slopes", "plot_comparisons", "plot_predictions", "plot_effects"), "probreg.plot.effects(fit, condition=['x', 'g'])")
    | {"add_constant": "a formula or probreg.ols(X, y), which include the intercept", "vif": "probreg.check(model)"}
    | dict.fromkeys(("t_test", "ttest", "ttest_ind"), "probreg.ols('y ~ group', data)")
    | dict.fromkeys(("step", "stepwise"), "probreg.lasso, or probreg.compare_models(fits)")
    | {"lrtest": "probreg.compare_models([fit, other], test='lr')"}
    | dict.fromkeys(("margins", "emmeans", "marginaleffects", "avg_slopes", "avg_comparisons", "avg_predictions"), "probreg.slopes, probreg.comparisons and probreg.predictions")
    | dict.fromkeys(("sample", "mcmc", "Bambi"), "probreg.fit(model, 'nuts')")
    | dict.fromkeys(("summary", "loo", "predict"), "the methods fit.summary(), fit.loo() and fit.predict(table)")
    | {"Prior": "probreg.Normal(1.0), probreg.HalfNormal(1.0) or another of probreg.priors"}
    | dict.fromkeys(("Student", "t"), "probreg.StudentT")
    | {"NegBinomial": "probreg.NegativeBinomial", "Multinom": "probreg.Multinomial", "StandardScaler": "the argument scaled=True of a prior"}
)  # fmt: skip
# names in modules of a package
OF_MODULE: Mapping[str, Mapping[str, str]] = {
    "probreg.priors": dict.fromkeys(("Gaussian", "Ridge", "L2"), "probreg.priors.Normal(1.0)")
    | dict.fromkeys(("Lasso", "L1", "DoubleExponential"), "probreg.priors.Laplace(1.0)")
    | dict.fromkeys(("Student", "T"), "probreg.priors.StudentT(1.0, nu=4.0)")
    | dict.fromkeys(("HalfT", "HalfStudent"), "probreg.priors.HalfStudentT(1.0)")
    | dict.fromkeys(("Improper", "NoPrior"), "probreg.priors.Flat()")
    | dict.fromkeys(("MvNormal", "MultivariateGaussian"), "probreg.priors.MultivariateNormal")
    | dict.fromkeys(("LKJCorr", "LKJCholeskyCov"), "probreg.priors.LKJ, or probreg.priors.Covariance with standard deviations")
    | dict.fromkeys(("InvGamma", "HalfInverseGamma"), "probreg.priors.InverseGamma")
    | dict.fromkeys(("R2D2", "R2D2M2"), "probreg.priors.R2")
    | dict.fromkeys(("RegularizedHorseshoe", "Finnish"), "probreg.priors.Horseshoe")
    | {"Firth": "probreg.priors.Jeffreys()", "Zellner": "probreg.priors.GPrior", "GroupLasso": "probreg.priors.GroupLaplace(1.0)", "Bridge": "probreg.priors.ExponentialPower"},
    "probreg.likelihoods": dict.fromkeys(("Normal", "LeastSquares"), "probreg.likelihoods.Gaussian()")
    | dict.fromkeys(("Logistic", "Logit", "Binary"), "probreg.likelihoods.Bernoulli()")
    | {"Probit": "probreg.likelihoods.Bernoulli(link='probit')"}
    | dict.fromkeys(("Softmax", "Multiclass"), "probreg.likelihoods.Categorical()")
    | dict.fromkeys(("NegBinomial", "NegBin"), "probreg.likelihoods.NegativeBinomial()")
    | dict.fromkeys(("Student", "T"), "probreg.likelihoods.StudentT()")
    | dict.fromkeys(("Cumulative", "Ordered", "OrderedLogistic", "OrderedLogit"), "probreg.likelihoods.Ordinal()")
    | dict.fromkeys(("AsymmetricLaplace", "Pinball"), "probreg.likelihoods.Quantile(0.5)")
    | {"Laplace": "probreg.likelihoods.AbsoluteLoss()", "Wald": "probreg.likelihoods.InverseGaussian()"}
    | dict.fromkeys(("ZeroInflatedPoisson", "ZIP"), "probreg.likelihoods.ZeroInflated(probreg.Poisson())")
    | {"HurdlePoisson": "probreg.likelihoods.Hurdle(probreg.Poisson())"},
    "probreg.kernels": dict.fromkeys(("Gaussian", "SquaredExponential", "ExpQuad", "gaussian"), "probreg.kernels.RBF(1.0)")
    | {"Matern12": "probreg.kernels.Matern(1.0, nu=0.5)", "Matern32": "probreg.kernels.Matern(1.0, nu=1.5)", "Matern52": "probreg.kernels.Matern(1.0, nu=2.5)"}
    | {"ConstantKernel": "probreg.kernels.Constant", "DotProduct": "probreg.kernels.Linear", "ExpSineSquared": "probreg.kernels.Periodic"}
    | {"WhiteKernel": "sigma of the likelihood, such as aux={'sigma': 1.0}"},
    "probreg.scores": dict.fromkeys(("brier_score", "brier_score_loss"), "probreg.scores.brier")
    | dict.fromkeys(("log_loss", "logloss", "cross_entropy"), "probreg.scores.log_score")
    | dict.fromkeys(("crps", "crps_gaussian", "crps_ensemble"), "probreg.scores.crps_normal or probreg.scores.crps_sample")
    | dict.fromkeys(("pinball_loss", "mean_pinball_loss", "quantile_loss"), "probreg.scores.pinball")
    | dict.fromkeys(("accuracy", "accuracy_score", "zero_one_loss"), "probreg.scores.zero_one")
    | dict.fromkeys(("auc", "roc_auc", "roc_auc_score"), "sklearn.metrics.roc_auc_score(y, p)")
    | {"winkler_score": "probreg.scores.interval_score", "calibration_curve": "probreg.scores.decompose, or probreg.plot.reliability"},
    "probreg.plot": dict.fromkeys(("forest", "posterior", "plot_forest", "coefs"), "probreg.plot.coefficients(fit)")
    | dict.fromkeys(("predictions", "plot_predictions", "conditional_effects", "slopes", "comparisons"), "probreg.plot.effects(fit, condition=['x', 'g'])")
    | dict.fromkeys(("residuals", "resid", "qq", "qqplot", "leverage"), "probreg.plot.diagnose(fit)")
    | dict.fromkeys(("pp_check", "plot_ppc", "posterior_predictive", "prior_predictive"), "probreg.plot.ppc(fit)")
    | dict.fromkeys(("calibration", "calibration_curve"), "probreg.plot.reliability")
    | dict.fromkeys(("roc", "roc_curve", "confusion_matrix"), "sklearn.metrics with the probabilities of fit.predict(table)")
    | dict.fromkeys(("kaplan_meier", "km"), "probreg.plot.survival(fit)"),
}  # fmt: skip
# keywords of functions
KEYWORDS: Mapping[str, str] = (
    dict.fromkeys(("family", "dist", "distribution"), "likelihood='poisson'")
    | dict.fromkeys(("level", "conf_level", "hdi_prob", "ci_prob", "confidence_level", "conf"), "prob=0.95, the probability of the interval")
    | {
        "alpha": "prob=0.95 for the probability of an interval, or lam= for the weight of a penalty",
        "cov_type": "covariance='HC3'",
        "vcov": "covariance='HC3'",
        "cov_kwds": "covariance='cluster' with groups=",
        "formula": "the formula as the first argument",
        "trials": "the response p(successes, trials) in a formula, or trials= of Model.from_arrays",
        "l1_ratio": "ratio= of probreg.elastic_net",
        "robust": "covariance='HC3'",
        "interval": "the columns mean_lower and new_lower, which are always there",
        "nAGQ": "points= of probreg.Evidence",
        "REML": "a method, such as probreg.Evidence(criterion='ML')",
        "reml": "a method, such as probreg.Evidence(criterion='ML')",
        "warmup": "tune= of probreg.NUTS",
        "n_chains": "chains= of probreg.NUTS",
        "n_samples": "draws= of a method that samples, such as probreg.NUTS(draws=1000)",
        "cores": "threads= of probreg.fit",
        "n_jobs": "threads= of probreg.fit",
        "penalty": "prior=, such as probreg.Normal(1.0) for a ridge penalty",
        "lam": "scale= of a prior, such as prior=probreg.Normal(1.0)",
        "C": "scale= of a prior, such as prior=probreg.Normal(1.0)",
        "priors": "prior=",
        "freq_weights": "weights=, whole numbers of equal rows",
        "var_weights": "weights=probreg.weights.precision(w)",
        "sample_weight": "weights=",
        "class_weight": "weights='sampling' with sample_weight=",
        "exposure": "offset=, the log of the exposure",
        "exponentiate": "exp=True",
        "typ": "type=, as in probreg.anova(fit, type='I')",
        "type": "what='link' for the linear predictor, or probreg.residuals(fit, kind)",
        "newdata": "data=",
        "random_state": "seed=",
        "random_seed": "seed=",
        "groups": "a term (1 | g) of the formula",
        "re_formula": "a term (x | g) of the formula",
        "fit_intercept": "a formula 'y ~ 0 + x' without intercept",
        "max_iter": "max_steps= of a method, such as probreg.Newton(max_steps=50)",
        "maxiter": "max_steps= of a method, such as probreg.Newton(max_steps=50)",
        "target_accept": "a method with options, such as probreg.NUTS(target_accept=0.95)",
        "draws": "a method with options, such as probreg.NUTS(draws=1000)",
        "chains": "a method with options, such as probreg.NUTS(chains=4)",
        "tune": "a method with options, such as probreg.NUTS(tune=1000)",
        "subset": "a table of these rows, such as data[data['x'] > 0]",
        "cv": "probreg.tune(model, 'cv')",
        "mu": "location=",
        "samples": "draws= of a method that samples, such as probreg.NUTS(draws=1000)",
        "learning_rate": "rate=, such as probreg.LMS(rate=0.1)",
        "lr": "rate=, such as probreg.LMS(rate=0.1)",
        "sd": "scale= of a prior, such as prior=probreg.Normal(1.0)",
        "sigma": "scale= for the standard deviation of a prior, or aux={'sigma': 1.0} for the noise",
        "solver": "method='newton'",
        "na_action": "missing='drop'",
        "link": "a likelihood with its link, such as probreg.Bernoulli(link='probit')",
        "quantile": "tau=",
        "q": "tau=",
    }
)  # fmt: skip
# functions of formulas; {0}, {1} are the arguments
FORMULA_FUNCTIONS: Mapping[str, str] = {
    "factor": "C({0})", "as.factor": "C({0})", "ns": "cr({0}, df=k), a natural cubic spline of k columns", "rcs": "cr({0}, df=k), a natural cubic spline of k columns", "cbind": "p({0}, n), n the number of trials", "Q": "`{0}`",
    "ifelse": "where({0}, {1}, {2})", "pmin": "minimum({0}, {1})", "pmax": "maximum({0}, {1})",
    "relevel": "C({0}, contr.treatment('base level'))", "interaction": "{0}:{1}", "cut": "a column of pandas.cut(data['{0}'], bins)",
    "lag": "a column of data['{0}'].shift(1)", "te": "t2({0}, {1})",
    "Surv": "cens({0}, {1})", "ordered": "a column of pandas.Categorical(data['{0}'], ordered=True)", "as.character": "C({0})", "mo": "C({0})",
    "as.numeric": "a column of data['{0}'].astype(float)", "is.na": "a column of data['{0}'].isna()", "month": "a column of data['{0}'].dt.month",
    "Error": "(1 | {0})", "pol": "poly({0}, 2)", "lo": "s({0})", "standardize": "scale({0})", "strata": "C({0}), or fit each level apart",
}  # fmt: skip
# registered names and options, by kind
REGISTERED: Mapping[str, Mapping[str, str]] = {
    "method": dict.fromkeys(("mcmc", "hmc", "stan", "sample"), "'nuts'")
    | dict.fromkeys(("mle", "ml", "irls", "bfgs", "lbfgs"), "'auto', or 'newton'")
    | dict.fromkeys(("ols", "qr", "svd"), "'closed_form'")
    | dict.fromkeys(("map", "mode"), "'auto' with a prior")
    | dict.fromkeys(("advi", "vi", "inla"), "'laplace' or 'integrate'")
    | {"reml": "'evidence'"},
    "likelihood": dict.fromkeys(("logit", "logistic", "binary"), "'bernoulli'")
    | dict.fromkeys(("softmax", "multiclass"), "'categorical'")
    | dict.fromkeys(("negbin", "negbinomial", "nb", "nbinom2"), "'negative_binomial'")
    | dict.fromkeys(("t", "student_t"), "'student'")
    | dict.fromkeys(("cumulative", "ordered"), "'ordinal'")
    | dict.fromkeys(
        ("quasipoisson", "quasi_poisson"),
        "'poisson' and fit.summary(covariance=\"dispersion\")",
    )
    | dict.fromkeys(
        ("quasibinomial", "quasi_binomial"),
        "'binomial' and fit.summary(covariance=\"dispersion\")",
    )
    | {"zip": "'zero_inflated(poisson)'", "normal": "'gaussian'"},
    "prior": dict.fromkeys(("l2", "ridge", "gaussian"), "'normal(1)'")
    | dict.fromkeys(("l1", "lasso"), "'laplace(1)'")
    | dict.fromkeys(("none", "uniform"), "'flat'"),
    "covariance": dict.fromkeys(("robust", "sandwich", "white"), "'HC3'")
    | dict.fromkeys(("clustered", "CL", "CR0", "CR1"), "'cluster' with groups=")
    | dict.fromkeys(("newey-west", "NeweyWest", "kernel"), "'HAC'")
    | dict.fromkeys(("nonrobust", "const", "model"), "'classical' or 'observed'")
    | {"quasi": "'dispersion'"},
    # of the command line
    "option": dict.fromkeys(("--family", "--distribution", "--dist"), "--likelihood poisson")
    | dict.fromkeys(("--data", "--input", "--file"), "the file as the first argument of the command")
    | dict.fromkeys(("--formula", "--model", "--response"), "the formula as the argument after the file")
    | {"--link": '--likelihood "bernoulli(link=probit)"'}
    | dict.fromkeys(("--tau", "--quantile"), '--likelihood "quantile(0.9)"')
    | dict.fromkeys(("--robust", "--vcov", "--cov-type", "--cov_type"), "--covariance HC3")
    | dict.fromkeys(("--cluster", "--clusters"), "--covariance cluster:COLUMN")
    | dict.fromkeys(("--level", "--conf-level", "--alpha", "--ci"), "--prob 0.95")
    | dict.fromkeys(("--draws", "--chains", "--iter", "--warmup", "--tune"), '--method "nuts(draws=2000, chains=4)"')
    | dict.fromkeys(("--reml", "--REML"), "--method evidence")
    | dict.fromkeys(("--priors", "--penalty"), '--prior "normal(1)"')
    | dict.fromkeys(("--exposure",), '--offset "log(exposure)"')
    | dict.fromkeys(("--random-state", "--random_state", "--random-seed"), "--seed 1")
    | dict.fromkeys(("--na-action", "--na_action", "--dropna"), "--missing drop")
    | dict.fromkeys(("--sep", "--delimiter"), '--separator ";"')
    | dict.fromkeys(("--groups", "--random"), "a term (1 | g) of the formula")
    | dict.fromkeys(("--out",), "--output, or --save to write a fit"),
}  # fmt: skip


def unknown_name(kind: str, name: str, names: Collection[str]) -> str:
    """Return the message for a name that is none of `names`: this package's word for a peer's name, or a similar name, and all names.

    >>> unknown_name("covariance", "hc3", ["classical", "HC3"])
    "no covariance is called 'hc3'; did you mean 'HC3'? There are: classical, HC3"
    """
    peers = REGISTERED.get(kind, {})
    hint = f"; use {peers[name]}." if name in peers else suggestion(name, names)
    return f"no {kind} is called {name!r}{hint} There are: {', '.join(names)}"


def missing_attribute(
    owner: str, name: str, peers: Mapping[str, str]
) -> AttributeError:
    """Return the error for an attribute that does not exist, with its replacement if it is a peer's name.

    >>> missing_attribute("Fit", "params", OF_FIT)
    AttributeError("Fit has no attribute 'params'; use fit.coef")
    """
    problem = f"{owner} has no attribute {name!r}"
    if name in peers:  # an empty name: Python adds no similar one to the message
        return AttributeError(f"{problem}; use {peers[name]}", name="")
    return AttributeError(problem)


def answer_names(namespace: dict[str, Any]) -> None:
    """Give names that a module lacks an error with the replacement; type checkers do not see this `__getattr__`."""
    module = namespace["__name__"]

    def lookup(name: str) -> Any:
        raise missing_attribute(module, name, OF_MODULE[module])

    namespace["__getattr__"] = lookup


class NamesPeers:
    """Give attributes that a class lacks an error with the replacement."""

    peers: ClassVar[Mapping[str, str]]

    # type checkers know the attributes themselves
    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if hasattr(type(self), name):  # a property raised the error
                return object.__getattribute__(self, name)
            raise missing_attribute(type(self).__name__, name, self.peers)
