// A naive model of the contract of PUT, MATCH, FORGET and REVOKE: a list of what was stored, looked through row by row; and
// chains that make trees with branches everywhere. For tests of this room.
#pragma once

#include <algorithm>
#include <random>

#include "prompt/test_store.h"

namespace pion::prompt_test {

// A chain as comparable units: token ids, or for a media item's positions numbers only the same item has.
inline std::vector<uint64_t> units_of(const Chain& chain) {
  std::vector<uint64_t> units(chain.tokens.begin(), chain.tokens.end());
  for (const MediaItem& item : chain.media) {
    for (uint32_t i = 0; i < item.length; ++i) units[item.position + i] = 1ULL << 63 | (xxh3(item.digest, item.length) >> 8 << 7) | i;
  }
  return units;
}

inline uint32_t shared(const Chain& a, const Chain& b) {
  const auto ua = units_of(a), ub = units_of(b);
  const auto [end, other] = std::mismatch(ua.begin(), ua.end(), ub.begin(), ub.end());
  const auto length = static_cast<uint32_t>(end - ua.begin());
  return std::min(a.outside_media(length), b.outside_media(length));
}

inline Chain cut(const Chain& chain, uint32_t length) {
  std::vector<MediaItem> media;
  for (const MediaItem& item : chain.media) {
    if (item.position < length) media.push_back(item);
  }
  return chain_of({chain.tokens.begin(), chain.tokens.begin() + length}, media);
}

class Oracle {
 public:
  explicit Oracle(std::vector<PoolSpec> pools) : pools_(std::move(pools)) {}

  struct Piece {
    Chain chain;  // [0, to)
    std::string salt;
    uint32_t from, to, rows_from;
    bool boundary;
  };

  uint32_t stored(const Chain& chain, const std::string& salt) const {
    uint32_t best = 0;
    for (const Piece& piece : pieces_) {
      if (piece.salt == salt && !piece.boundary) best = std::max(best, shared(piece.chain, chain));
    }
    return best;
  }

  // Rows of this pool and token that the prompt can use. `own`: only of what it shares tokens (or a boundary) with, which is what
  // a PUT counts on; a match also finds rows that other branches brought.
  bool has_row(size_t pool, const Chain& chain, const std::string& salt, uint32_t token, bool own) const {
    return std::any_of(pieces_.begin(), pieces_.end(), [&](const Piece& piece) {
      if (piece.salt != salt) return false;
      const uint32_t common = shared(piece.chain, chain);
      if (own && (piece.boundary ? common < piece.to : common <= piece.from)) return false;
      const RowSet rows = pools_[pool].held(piece.from, piece.to, piece.rows_from, piece.boundary);
      const bool held = (token >= rows.keep_from && token < rows.keep_to) || (token >= rows.from && token < rows.to);
      return held && token < common;
    });
  }
  bool has_state(const Chain& chain, const std::string& salt, uint32_t length) const {
    return std::any_of(pieces_.begin(), pieces_.end(), [&](const Piece& piece) {
      return piece.salt == salt && piece.to == length && shared(piece.chain, chain) >= length;
    });
  }
  bool complete(size_t pool, const Chain& chain, const std::string& salt, uint32_t length, bool own) const {
    const PoolSpec& spec = pools_[pool];
    if (length == 0) return true;
    if (spec.rule == PoolRule::kAll) return true;
    if (spec.rule == PoolRule::kTrailing) return has_state(chain, salt, length);
    for (uint32_t t = length > spec.window ? length - spec.window : 0; t < length; ++t) {
      if (!has_row(pool, chain, salt, t, own)) return false;
    }
    for (uint32_t t = 0; t < std::min(spec.keep, length); ++t) {
      if (!has_row(pool, chain, salt, t, own)) return false;
    }
    return true;
  }
  bool complete(const Chain& chain, const std::string& salt, uint32_t length, bool own) const {
    for (size_t i = 0; i < pools_.size(); ++i) {
      if (!complete(i, chain, salt, length, own)) return false;
    }
    return true;
  }

  uint32_t match(const Chain& chain, const std::string& salt, uint32_t max) const {
    for (uint32_t length = std::min(stored(chain, salt), max); length > 0; --length) {
      if (chain.outside_media(length) == length && complete(chain, salt, length, false)) return length;
    }
    return 0;
  }

  // What PUT answers: nothing (a gap), or from and to.
  std::optional<std::pair<uint32_t, uint32_t>> put(const Chain& chain, uint32_t from, const std::string& salt) {
    const uint32_t known = stored(chain, salt), to = chain.size();
    if (from > known) return std::nullopt;
    if (known < to) {
      uint32_t rows_from = known;
      for (size_t i = 0; i < pools_.size() && from < known; ++i) {
        const PoolSpec& pool = pools_[i];
        if (pool.rule != PoolRule::kWindow) continue;
        const RowSet brought = pool.held(from, to, from, false);
        for (uint32_t t = brought.from; t < known; ++t) rows_from = has_row(i, chain, salt, t, true) ? rows_from : from;
        for (uint32_t t = from; t < std::min(pool.keep, known); ++t) rows_from = has_row(i, chain, salt, t, true) ? rows_from : from;
      }
      pieces_.push_back({chain, salt, known, to, rows_from, false});
      return std::pair{known, to};
    }
    if (!complete(chain, salt, to, true)) {
      pieces_.push_back({chain, salt, to, to, from, true});
      if (complete(chain, salt, to, true)) {
        // One boundary a position: the new one stands for the old one.
        for (size_t i = 0; i + 1 < pieces_.size(); ++i) {
          const Piece& piece = pieces_[i];
          if (piece.boundary && piece.salt == salt && piece.to == to && shared(piece.chain, chain) == to) {
            pieces_.erase(pieces_.begin() + static_cast<ptrdiff_t>(i));
            break;
          }
        }
      } else {
        pieces_.pop_back();
      }
    }
    return std::pair{to, to};
  }

  uint64_t tokens() const {
    uint64_t sum = 0;
    for (const Piece& piece : pieces_) sum += piece.to - piece.from;
    return sum;
  }
  void revoke(const std::string& salt) {
    std::erase_if(pieces_, [&](const Piece& piece) { return piece.salt == salt; });
  }
  // Only for models of `all` pools: what a cut does to other rows is the store's own choice.
  void forget(const Chain& chain, const std::string& salt) {
    if (stored(chain, salt) < chain.size()) return;
    const uint32_t length = chain.size();
    const auto begins = [&](const Piece& piece) { return piece.salt == salt && piece.to >= length && shared(piece.chain, chain) == length; };
    std::erase_if(pieces_, [&](const Piece& piece) { return begins(piece) && piece.from >= length && !(piece.from == 0 && length > 0); });
    for (size_t i = 0; i < pieces_.size(); ++i) {
      if (!begins(pieces_[i])) continue;
      uint32_t keep = 0;  // the last place before where another branch leaves this piece
      for (size_t j = 0; j < pieces_.size(); ++j) {
        const Piece& other = pieces_[j];
        if (j == i || other.salt != salt || other.from <= pieces_[i].from || other.from >= length) continue;
        if (shared(other.chain, pieces_[i].chain) >= other.from) keep = std::max(keep, other.from);
      }
      if (keep == 0) {
        pieces_.erase(pieces_.begin() + static_cast<ptrdiff_t>(i));
      } else {
        pieces_[i].to = keep;
        pieces_[i].chain = cut(pieces_[i].chain, keep);
      }
      return;
    }
  }

 private:
  std::vector<PoolSpec> pools_;
  std::vector<Piece> pieces_;
};

// Few ids and a habit of going on with earlier chains make trees with branches everywhere.
class ChainMaker {
 public:
  ChainMaker(uint32_t seed, bool media) : random_(seed), media_(media) {}

  Chain next() {
    std::vector<uint32_t> tokens;
    std::vector<MediaItem> items;
    if (!made_.empty() && pick(4) != 0) {
      const Chain& old = made_[pick(static_cast<uint32_t>(made_.size()))];
      const Chain head = cut(old, old.outside_media(pick(old.size() + 1)));
      tokens = head.tokens;
      items = head.media;
    }
    const uint32_t more = 1 + pick(30);
    for (uint32_t i = 0; i < more; ++i) {
      if (media_ && pick(12) == 0) {
        items.push_back({static_cast<uint32_t>(tokens.size()), 1 + pick(4), pick(2) ? "dog" : "cat"});
        tokens.insert(tokens.end(), items.back().length, 0);
      } else {
        tokens.push_back(pick(3));
      }
    }
    made_.push_back(chain_of(tokens, items));
    return made_.back();
  }
  uint32_t pick(uint32_t n) { return n == 0 ? 0 : std::uniform_int_distribution<uint32_t>(0, n - 1)(random_); }

 private:
  std::mt19937 random_;
  bool media_;
  std::vector<Chain> made_;
};

}  // namespace pion::prompt_test
