package report

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"grattoir/validate"
	"grattoir/validate/policy"
)

// PackQuery looks packs up. A game code or an owner is needed: all packs of a country are
// not for a page.
type PackQuery struct {
	GameCode    string // with or without its leading zeros
	First, Last int64  // of the pack numbers, both included; both 0 for all
	State       validate.PackState
	Owner       string
	Limit       int // rows; 0 is 200, at most 1000
}

// PackRow is a pack that left the printer's store.
type PackRow struct {
	Block    validate.BlockID
	GameCode string
	Game     string
	Number   int64 // of the block in its emission
	Pack     int64
	State    validate.PackState
	Owner    string
	Epoch    int64 // owner epoch
	Changed  time.Time
}

// PackGroup is what a range of packs holds of one state and owner.
type PackGroup struct {
	Game  string
	Block int64 // number in its emission
	// State is PackPrinted for packs that nobody was given yet, and "" for numbers that
	// lie in no published block.
	State       validate.PackState
	Owner       string
	Packs       int64
	First, Last int64 // the lowest and highest number, 0 where the state is printed or ""
}

// Packs lists packs in the order of their game codes and numbers, and tells whether there
// are more than the limit. The errors include ErrFilter.
func Packs(ctx context.Context, db *sql.DB, q PackQuery) (list []PackRow, more bool, err error) {
	if q.Limit == 0 {
		q.Limit = 200
	}
	if q.GameCode == "" && q.Owner == "" || q.Limit < 1 || q.Limit > maxFleetPage {
		return nil, false, Wrongf("livrets : nommez un code de jeu ou un terminal, et 1 à %d lignes", "packs: name a game code or a terminal, and 1 to %d rows", maxFleetPage)
	}
	err = reading(ctx, db, func(tx *sql.Tx) error {
		blocks, err := codeBlocks(ctx, tx, q.GameCode)
		if err != nil {
			return err
		}
		for _, b := range blocks {
			if err := q.of(ctx, tx, b, &list); err != nil || len(list) > q.Limit {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, false, fmt.Errorf("packs: %w", err)
	}
	if len(list) > q.Limit {
		list, more = list[:q.Limit], true
	}
	return list, more, nil
}

// codeBlocks are the published blocks of a game code, or all, by code and first pack.
func codeBlocks(ctx context.Context, tx *sql.Tx, code string) ([]block, error) {
	blocks, err := readBlocks(ctx, tx)
	if err != nil {
		return nil, err
	}
	var list []block
	for _, b := range blocks {
		if code == "" || strings.TrimLeft(b.gameCode, "0") == strings.TrimLeft(code, "0") {
			list = append(list, b)
		}
	}
	if len(list) == 0 && code != "" {
		return nil, Wrongf("le code de jeu %.20q n'a aucun bloc publié", "game code %.20q has no published block", code)
	}
	slices.SortFunc(list, func(a, b block) int {
		return cmp.Or(cmp.Compare(a.gameCode, b.gameCode), cmp.Compare(a.first, b.first), compareBlocks(a, b))
	})
	return list, nil
}

// last is the block's highest pack number.
func (b block) last() int64 { return b.first + (b.tickets+b.size-1)/b.size - 1 }

func (q PackQuery) of(ctx context.Context, tx *sql.Tx, b block, list *[]PackRow) error {
	var c conditions
	c.and("block_id = $%d", b.id[:])
	if q.First != 0 || q.Last != 0 {
		c.and("pack >= $%d", q.First)
		c.and("pack <= $%d", q.Last)
	}
	if q.State != "" {
		c.and("state = $%d", string(q.State))
	}
	if q.Owner != "" {
		c.and("owner = $%d", q.Owner)
	}
	return each(ctx, tx, "SELECT pack, state, owner, epoch, changed FROM packs"+c.where()+" ORDER BY block_id, pack LIMIT "+strconv.Itoa(q.Limit+1-len(*list)), c.args, func(rows *sql.Rows) error {
		p := PackRow{Block: b.id, GameCode: b.gameCode, Game: b.game, Number: b.number}
		var changed string
		err := rows.Scan(&p.Pack, &p.State, &p.Owner, &p.Epoch, &changed)
		if err == nil {
			p.Changed, err = storedTime(changed)
		}
		*list = append(*list, p)
		return err
	})
}

// PackGroups counts a range of packs of a game code by block, state and owner: whom an act
// on them touches. The groups add up to the range.
func PackGroups(ctx context.Context, db *sql.DB, code string, first, last int64) ([]PackGroup, error) {
	if code == "" || first < 0 || last < first {
		return nil, Wrongf("livrets %d-%d du code de jeu %.20q : il faut un code et une suite comme 120-179", "packs %d-%d of game code %.20q: want a code and a run like 120-179", first, last, code)
	}
	var list []PackGroup
	err := reading(ctx, db, func(tx *sql.Tx) error {
		blocks, err := codeBlocks(ctx, tx, code)
		if err != nil {
			return err
		}
		outside := last - first + 1
		for _, b := range blocks {
			low, high := max(first, b.first), min(last, b.last())
			if low > high {
				continue
			}
			printed := high - low + 1
			outside -= printed
			err := each(ctx, tx, "SELECT state, owner, count(*), min(pack), max(pack) FROM packs WHERE block_id = $1 AND pack >= $2 AND pack <= $3 GROUP BY state, owner ORDER BY 4", []any{b.id[:], low, high}, func(rows *sql.Rows) error {
				g := PackGroup{Game: b.game, Block: b.number}
				err := rows.Scan(&g.State, &g.Owner, &g.Packs, &g.First, &g.Last)
				printed -= g.Packs
				list = append(list, g)
				return err
			})
			if err != nil {
				return err
			}
			if printed > 0 {
				list = append(list, PackGroup{Game: b.game, Block: b.number, State: validate.PackPrinted, Packs: printed})
			}
		}
		if outside > 0 {
			list = append(list, PackGroup{Packs: outside})
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("packs: %w", err)
	}
	return list, nil
}

// Policies are those that are published and not withdrawn.
func Policies(ctx context.Context, db *sql.DB) (*policy.Set, error) {
	set := &policy.Set{}
	err := reading(ctx, db, func(tx *sql.Tx) error {
		return acceptPolicies(ctx, tx, set, " WHERE withdrawn = ''")
	})
	if err != nil {
		return nil, fmt.Errorf("policies: %w", err)
	}
	return set, nil
}

// acceptPolicies reads the published policies that a condition chooses into a set.
func acceptPolicies(ctx context.Context, tx *sql.Tx, set *policy.Set, where string) error {
	return each(ctx, tx, "SELECT version, signed FROM policies"+where+" ORDER BY version", nil, func(rows *sql.Rows) error {
		var version, signed string
		if err := rows.Scan(&version, &signed); err != nil {
			return err
		}
		text, _, _ := strings.Cut(signed, "\n\n") // central has verified the signatures behind it
		p, err := policy.Parse(text + "\n")
		if err != nil {
			return fmt.Errorf("policy %s: %w", version, err)
		}
		return set.Accept(p)
	})
}
