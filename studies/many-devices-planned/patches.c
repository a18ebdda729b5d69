/* Anneals a patchwork: which of P devices computes the pairs of two blocks, for every KV head. See patches.py.
 *
 *   patches P heads blocks  row-out row-back key-out key-back  limit low  excess balance0 balance1 heat0 heat1
 *           moves(thousands) seed homes begin out [in]
 *
 * Words are whole numbers: of a block of rows (all query heads of a KV head) and of keys, on their way and back. What is
 * made less: words of all devices, excess/16 for each word above the limit that a device sends and nobody could pass on
 * for it, and for each word that it could send less than "low" with all that it can pass on, and balance/16 for each half pair of blocks by which its work differs from the mean. All arithmetic is in
 * integers, so that a seed gives the same table everywhere.
 * homes: 0 in order, 1 zigzag, 2 in order and moved, 3 zigzag and moved; 4 more if rows can be passed on as keys can.
 * Homes are not moved where there is a "low".
 * begin: 0 by heads, 1 own rows, 2 the table "in".
 */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int64_t word;
enum { SCALE = 16, STEPS = 2000, LOGS = 4096 };

static int P, H, B, moves_homes, passes_rows;
static word row_out, row_back, key_out, key_back, limit_, low_, excess, balance;
static int *owner, *makers, *row_cells, *key_cells; /* cells of [rank, head, block] */
static int *users, *row_users;                      /* of [head, block] */
/* only: beyond the first copy, which others could pass on; passes: what a rank could pass on of others */
static word *sent, *only, *passes, *work, share, energy;
static word logs[LOGS];
static uint64_t state;

static uint64_t draw(void) {
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return state * 0x2545F4914F6CDD1DULL;
}
static int below(int n) { return (int)(((draw() >> 32) * (uint64_t)n) >> 32); }

static word charge(int p) {
  word over = sent[p] - only[p] - limit_, under = low_ - sent[p] - passes[p], off = work[p] - share;
  return SCALE * sent[p] + excess * ((over > 0 ? over : 0) + (under > 0 ? under : 0)) + balance * (off > 0 ? off : -off);
}

static int maker(int h, int i, int j) { return makers[(h * B + i) * B + j]; }

/* A rank has a block besides so many others, or no more: each of them could send it to all others of these. */
static void pass(const int *cells, int h, int b, int p, int others, word change) {
  for (int q = 0; q < P && others; q++) {
    if (q == p || q == owner[b] || !cells[(q * H + h) * B + b]) continue;
    energy -= charge(q);
    passes[q] += change;
    energy += charge(q);
  }
  energy -= charge(p);
  passes[p] += others * change;
  energy += charge(p);
}

/* One more (sign 1) or one less (-1) cell of a rank; energy follows. */
static void count(int p, int h, int i, int j, int sign) {
  int at_row = (p * H + h) * B + i, at_key = (p * H + h) * B + j, from = owner[i], of = owner[j];
  int *rows = row_cells + at_row, *keys = key_cells + at_key;
  int row_changes = sign > 0 ? (*rows)++ == 0 : --(*rows) == 0;
  int key_changes = sign > 0 ? (*keys)++ == 0 : --(*keys) == 0;
  energy -= charge(p);
  work[p] += sign * (i == j ? 1 : 2);
  if (row_changes && from != p) sent[p] += sign * row_back;
  if (key_changes && of != p) sent[p] += sign * key_back;
  energy += charge(p);
  if (row_changes && from != p) {
    energy -= charge(from);
    sent[from] += sign * row_out;
    int *used = row_users + h * B + i;
    int extra = sign > 0 ? (*used)++ > 0 : --(*used) > 0;
    if (extra && passes_rows) only[from] += sign * row_out;
    energy += charge(from);
    if (low_ && passes_rows) pass(row_cells, h, i, p, sign > 0 ? *used - 1 : *used, sign * row_out);
  }
  if (key_changes && of != p) {
    int *used = users + h * B + j;
    int extra = sign > 0 ? (*used)++ > 0 : --(*used) > 0;
    energy -= charge(of);
    sent[of] += sign * key_out;
    if (extra) only[of] += sign * key_out;
    energy += charge(of);
    if (low_) pass(key_cells, h, j, p, sign > 0 ? *used - 1 : *used, sign * key_out);
  }
}

typedef struct {
  int h, i, j, old;
} change;
static change *done;
static int dones;

static void give(int h, int i, int j, int q) {
  int *m = makers + (h * B + i) * B + j, p = *m;
  if (p == q) return;
  done[dones++] = (change){h, i, j, p};
  count(p, h, i, j, -1);
  count(q, h, i, j, 1);
  *m = q;
}
static void give_row(int h, int i, int p, int q) {
  for (int j = 0; j <= i; j++)
    if (maker(h, i, j) == p) give(h, i, j, q);
}
static void give_key(int h, int j, int p, int q) {
  for (int i = j; i < B; i++)
    if (maker(h, i, j) == p) give(h, i, j, q);
}
static int holds(int p, int h, int i, int j) {
  return (owner[i] == p || row_cells[(p * H + h) * B + i]) && (owner[j] == p || key_cells[(p * H + h) * B + j]);
}
/* Another rank that has row and key of a cell: the one with least work of those, or some one; -1 where there is none. */
static int holder(int h, int i, int j, int p, int any) {
  int found = -1, first = below(P);
  for (int k = 0; k < P; k++) {
    int q = first + k < P ? first + k : first + k - P;
    if (q == p || !holds(q, h, i, j) || (found >= 0 && work[q] >= work[found])) continue;
    found = q;
    if (any) break;
  }
  return found;
}
/* Cells of a row or of a key of a rank go to those that have what they need, or to another rank. */
static void drop_row(int h, int i, int p, int q) {
  for (int j = 0; j <= i; j++)
    if (maker(h, i, j) == p) {
      int to = holder(h, i, j, p, 0);
      give(h, i, j, to < 0 ? q : to);
    }
}
static void drop_key(int h, int j, int p, int q) {
  for (int i = j; i < B; i++)
    if (maker(h, i, j) == p) {
      int to = holder(h, i, j, p, 0);
      give(h, i, j, to < 0 ? q : to);
    }
}
static void undo(void) {
  while (dones) {
    change c = done[--dones];
    int *m = makers + (c.h * B + c.i) * B + c.j;
    count(*m, c.h, c.i, c.j, -1);
    count(c.old, c.h, c.i, c.j, 1);
    *m = c.old;
  }
}

static void recount(void) {
  memset(row_cells, 0, sizeof(int) * P * H * B);
  memset(key_cells, 0, sizeof(int) * P * H * B);
  memset(users, 0, sizeof(int) * H * B);
  memset(row_users, 0, sizeof(int) * H * B);
  for (int p = 0; p < P; p++) sent[p] = only[p] = passes[p] = work[p] = 0;
  energy = 0;
  for (int p = 0; p < P; p++) energy += charge(p);
  for (int h = 0; h < H; h++)
    for (int i = 0; i < B; i++)
      for (int j = 0; j <= i; j++) count(maker(h, i, j), h, i, j, 1);
}

static word total(void) {
  word e = 0;
  for (int p = 0; p < P; p++) e += charge(p);
  return e;
}

/* Words of a block's owner, taken away (sign -1) or given (1): after a change of homes the rest is as it was. */
static void home(int b, int sign) {
  int of = owner[b];
  for (int h = 0; h < H; h++) {
    int used = 0, used_rows = 0;
    for (int p = 0; p < P; p++) {
      if (p == of) continue;
      if (row_cells[(p * H + h) * B + b]) sent[of] += sign * row_out, sent[p] += sign * row_back, used_rows++;
      if (key_cells[(p * H + h) * B + b]) sent[of] += sign * key_out, sent[p] += sign * key_back, used++;
    }
    if (used > 1) only[of] += sign * (used - 1) * key_out;
    if (used_rows > 1 && passes_rows) only[of] += sign * (used_rows - 1) * row_out;
    if (sign > 0) users[h * B + b] = used, row_users[h * B + b] = used_rows;
  }
}
static void swap_homes(int a, int b) {
  int other = owner[a];
  home(a, -1), home(b, -1);
  owner[a] = owner[b], owner[b] = other;
  home(a, 1), home(b, 1);
  energy = total();
}

static int somebody(int h, int i, int j) {
  int z = below(10);
  if (z < 4) return maker(h, i, below(i + 1));
  if (z < 7) return maker(h, j + below(B - j), j);
  if (z < 9) return owner[below(2) ? i : j];
  return below(P);
}

/* A change drawn at random; 0 where there is none. */
static int change_something(int *a, int *b) {
  int h = below(H), i = below(B), j = below(i + 1), kind = below(100), p = maker(h, i, j), q = somebody(h, i, j);
  *a = -1;
  if (moves_homes && kind < 3) {
    *a = below(B), *b = below(3) ? below(B) : (*a + 1) % B;
    if (owner[*a] == owner[*b]) return 0;
    swap_homes(*a, *b);
    return 1;
  }
  if (kind < 30) {
    q = holder(h, i, j, p, 1);
    if (q < 0) return 0;
    give(h, i, j, q);
    return 1;
  }
  if (q == p) return 0;
  if (kind < 42) {
    give(h, i, j, q);
  } else if (kind < 48) {
    drop_row(h, i, p, q);
  } else if (kind < 54) {
    drop_key(h, j, p, q);
  } else if (kind < 58) {
    give_row(h, i, p, q);
  } else if (kind < 72) {
    give_key(h, j, p, q);
  } else if (kind < 80) {
    int other = below(B);
    give_row(h, i, p, q);
    if (other != i) give_row(h, other, q, p);
  } else if (kind < 87) {
    int other = below(B);
    if (other == j) return 0;
    give_key(h, j, p, q);
    give_key(h, other, q, p);
  } else if (kind < 94) {
    int h2 = below(H), i2 = 0, j2 = 0, tries = 0;
    do {
      i2 = below(B), j2 = below(i2 + 1);
    } while (maker(h2, i2, j2) != q && tries++ < 30);
    if (maker(h2, i2, j2) != q) return 0;
    give(h, i, j, q);
    give(h2, i2, j2, p);
  } else if (kind < 96) {
    int other = below(B), first = i < other ? i : other, last = i < other ? other : i, from = below(2);
    if (last - first > 6 && below(2)) last = B - 1;
    for (int r = first; r <= last; r++)
      for (int c = 0; c <= r - from; c++) give(h, r, c, q);
  } else {
    int i2 = below(B), j2 = below(B), top = i < i2 ? i : i2, end = i < i2 ? i2 : i;
    int left = j < j2 ? j : j2, right = j < j2 ? j2 : j;
    for (int r = top; r <= end; r++)
      for (int c = left; c <= right && c <= r; c++)
        if (maker(h, r, c) == p) give(h, r, c, q);
  }
  return dones > 0;
}

static void begin(int how, const char *table) {
  int each = P > H ? P / H : 1;
  for (int h = 0; h < H; h++)
    for (int i = 0; i < B; i++)
      for (int j = 0; j <= i; j++)
        makers[(h * B + i) * B + j] = how == 1 || owner[i] == owner[j] ? owner[i]
                                      : P > H                          ? h * each + (int)((int64_t)i * i * each / B / B)
                                                                       : h % P;
  if (how != 2) return;
  FILE *f = fopen(table, "r");
  int p0, h0, b0;
  if (!f || fscanf(f, "%d %d %d", &p0, &h0, &b0) != 3) exit(1);
  int finer = B / b0, *cells = malloc(sizeof(int) * h0 * b0 * b0), *owners = malloc(sizeof(int) * b0);
  for (int b = 0; b < b0; b++)
    if (fscanf(f, "%d", owners + b) != 1) exit(1);
  for (int h = 0; h < h0; h++)
    for (int i = 0; i < b0; i++)
      for (int j = 0; j <= i; j++)
        if (fscanf(f, "%d", cells + (h * b0 + i) * b0 + j) != 1) exit(1);
  fclose(f);
  for (int b = 0; b < B; b++) owner[b] = owners[b / finer];
  for (int h = 0; h < H; h++)
    for (int i = 0; i < B; i++)
      for (int j = 0; j <= i; j++) makers[(h * B + i) * B + j] = cells[((h % h0) * b0 + i / finer) * b0 + j / finer];
}

static word between(word first, word last, int step) {
  double at = (double)step / STEPS;
  return (word)floor(exp(log((double)first) * (1 - at) + log((double)last) * at) + 0.5);
}

int main(int c, char **v) {
  if (c < 20) return 2;
  P = atoi(v[1]), H = atoi(v[2]), B = atoi(v[3]);
  row_out = atol(v[4]), row_back = atol(v[5]), key_out = atol(v[6]), key_back = atol(v[7]);
  limit_ = atol(v[8]), low_ = atol(v[9]), excess = atol(v[10]);
  word balance0 = atol(v[11]), balance1 = atol(v[12]), heat0 = atol(v[13]), heat1 = atol(v[14]);
  long moves = atol(v[15]) * 1000, each = moves / STEPS;
  state = 88172645463325252ULL ^ 0x9E3779B97F4A7C15ULL * (uint64_t)(atol(v[16]) + 1);
  int homes = atoi(v[17]), per = B / P, half = per / 2 > 0 ? per / 2 : 1;
  moves_homes = (homes & 2) > 0 && !low_, passes_rows = (homes & 4) > 0;
  for (int i = 0; i < 20; i++) draw();
  for (int i = 0; i < LOGS; i++) logs[i] = (word)floor(-log((i + 0.5) / LOGS) * 1024 + 0.5);
  size_t cells = (size_t)H * B * B;
  owner = malloc(sizeof(int) * B), makers = calloc(cells, sizeof(int)), done = malloc(sizeof(change) * cells * 2);
  row_cells = calloc((size_t)P * H * B, sizeof(int)), key_cells = calloc((size_t)P * H * B, sizeof(int));
  users = calloc((size_t)H * B, sizeof(int)), row_users = calloc((size_t)H * B, sizeof(int));
  sent = calloc(P, sizeof(word)), only = calloc(P, sizeof(word)), work = calloc(P, sizeof(word));
  passes = calloc(P, sizeof(word));
  for (int b = 0; b < B; b++) {
    int turn = b / half;
    owner[b] = homes % 2 == 0 ? b / per : turn < P ? turn : 2 * P - 1 - turn;
  }
  begin(atoi(v[18]), c > 20 ? v[20] : "");
  share = (word)H * B * B / P;
  balance = balance0;
  recount();
  int *best_makers = malloc(sizeof(int) * cells), *best_owner = malloc(sizeof(int) * B), a = 0, b = 0;
  word best = INT64_MAX;
  memcpy(best_makers, makers, sizeof(int) * cells), memcpy(best_owner, owner, sizeof(int) * B);
  for (int step = 0; step < STEPS; step++) {
    word heat = between(heat0, heat1, step);
    balance = between(balance0, balance1, step);
    energy = total();
    for (long move = 0; move < each; move++) {
      word before = energy;
      dones = 0;
      if (!change_something(&a, &b)) continue;
      if (energy > before && (energy - before) * 1024 > heat * logs[draw() >> 52]) {
        if (a >= 0)
          swap_homes(a, b);
        else
          undo();
      }
    }

    word kept = balance;
    balance = balance1;
    word now = total();
    balance = kept;
    if (now < best) {
      best = now;
      memcpy(best_makers, makers, sizeof(int) * cells), memcpy(best_owner, owner, sizeof(int) * B);
    }
  }
  memcpy(makers, best_makers, sizeof(int) * cells), memcpy(owner, best_owner, sizeof(int) * B);
  recount();
  word all = 0, most = 0, busiest = 0;
  for (int p = 0; p < P; p++) {
    all += sent[p];
    if (sent[p] - only[p] > most) most = sent[p] - only[p];
    if (work[p] > busiest) busiest = work[p];
  }
  fprintf(stderr, "words %.3f, at most %lld alone, limit %lld, work %.4f\n", (double)all / P, (long long)most,
          (long long)limit_, (double)busiest / share);
  FILE *f = fopen(v[19], "w");
  if (!f) return 1;
  fprintf(f, "%d %d %d\n", P, H, B);
  for (int i = 0; i < B; i++) fprintf(f, "%d ", owner[i]);
  for (int h = 0; h < H; h++)
    for (int i = 0; i < B; i++) {
      fprintf(f, "\n");
      for (int j = 0; j <= i; j++) fprintf(f, "%d ", maker(h, i, j));
    }
  fprintf(f, "\n");
  return fclose(f) ? 1 : 0;
}
