// Sample nodes, and the brute-force choice: tries all divisions one by one.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "controller/scheduler/topology/best_effort.h"

namespace egpu::scheduler::topology::testing {

using Random = std::mt19937_64;
/// Returns a number uniform in [low, high].
int64_t pick(Random& random, int64_t low, int64_t high);

/// Returns cards 0 … count − 1 of one model, without links.
std::vector<v1alpha::Card> plainNode(std::size_t count, const std::string& model = "A100");
/// Adds a link that both cards report.
void link(std::vector<v1alpha::Card>& cards, std::size_t a, std::size_t b, const std::string& type, int64_t count = 0);

std::vector<v1alpha::Card> dgx1Volta();
std::vector<v1alpha::Card> dgx1Pascal();
std::vector<v1alpha::Card> dgx2();

std::vector<Site> sitesOf(const std::vector<v1alpha::Card>& cards);
PairScores scoresOf(const std::vector<v1alpha::Card>& cards);
/// Returns paths of 10 … 60 and up to three NVLinks, random for each pair.
PairScores randomScores(Random& random, std::size_t cards);

/// Returns the best choice by trying every division; bestEffort() must return the same. Slow above 10 cards.
Choice everyDivision(const PairScores& scores, const CardSetRequest& wish, const Admits& admits = {});

}  // namespace egpu::scheduler::topology::testing
