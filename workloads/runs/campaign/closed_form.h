// What is known without simulating: the formulas that a campaign stands beside. All times in the same unit.
#pragma once

namespace orrery::campaign {

/// Young, A first order approximation to the optimum checkpoint interval (CACM 17, 1974): sqrt(2 delta M), the work
/// between two checkpoints that take `delta`, where failures come `mtbf` apart in the mean.
double young_interval(double delta, double mtbf);

/// Daly, A higher order estimate of the optimum checkpoint interval for restart dumps (FGCS 22, 2006), eq. 37:
/// sqrt(2 delta M) (1 + 1/3 sqrt(delta / 2M) + 1/9 (delta / 2M)) - delta for delta < 2M, else M.
double daly_interval(double delta, double mtbf);

/// Mean time of `work` in pieces of `interval`, each with a checkpoint of `delta` behind it, where failures come after
/// exponential times of mean `mtbf`, also during checkpoints and restarts, and each is followed by a restart of
/// `restart` (Daly 2006, eq. 20): M e^(R/M) (e^((interval + delta)/M) - 1) work / interval.
double expected_time(double work, double interval, double delta, double restart, double mtbf);

/// Share of time that is productive by Kokolis et al. (arXiv 2410.21680, section IV): with failures `mtbf` apart, a
/// restart of `restart`, and checkpoints of `delta` every `interval`, (1 - (restart + interval / 2) / M) / (1 + delta /
/// interval): first order, so below zero where failures outrun the interval.
double expected_ettr(double interval, double delta, double restart, double mtbf);

}  // namespace orrery::campaign
