package central

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"grattoir/sync/wire"
	"grattoir/validate"
	"grattoir/validate/policy"
)

// dropGrace is how many days terminals keep a block after the last day on which its
// prizes can be claimed: a ticket that comes late, or a dispute about one that was
// refused on the last day, still gets its reason at the counter instead of "block not
// here". Two months is what a shop's settlement and a written complaint take.
const dropGrace = 60

// ClosingNotice is the end of an emission's sale and what follows from it. Dates are
// days as 2001-04-01, all but the names are zero for an emission that is open.
type ClosingNotice struct {
	Game      string `json:"game"`
	Emission  string `json:"emission"`
	Closed    string `json:"closed"`
	ClaimDays int    `json:"claim_days"`
	LastClaim string `json:"last_claim"` // last day of the claim period
	DropAfter string `json:"drop_after"` // last day on which terminals keep its blocks
	Blocks    int    `json:"blocks"`     // published blocks of the emission
}

// CloseEmission enters an emission's closing notice, or changes its date; the zero Date
// takes it back. Terminals drop the emission's blocks a grace after the claim period of
// claimDays (règlement général, article 10: 30). A date so long ago that they would drop
// them at once is refused unless past says that it is meant. The errors are ErrRefused
// and, where no block of the emission is published, ErrNotFound.
func (c *Central) CloseEmission(ctx context.Context, game, emission string, on policy.Date, claimDays int, past bool) (ClosingNotice, error) {
	n := ClosingNotice{Game: game, Emission: emission}
	fail := func(err error) (ClosingNotice, error) {
		return ClosingNotice{}, fmt.Errorf("close emission %.20q of game %.40q: %w", emission, game, err)
	}
	if !on.IsZero() {
		if claimDays < 1 || claimDays > 3650 {
			return fail(fmt.Errorf("%w: a claim period of %d days, want 1 to 3650", ErrRefused, claimDays))
		}
		drop := dropAfter(on, claimDays)
		n.Closed, n.ClaimDays, n.LastClaim, n.DropAfter = on.String(), claimDays, policy.LastClaimDay(on, claimDays).String(), drop.String()
		if today := policy.DateOf(c.opt.Now().UTC()); drop.Before(today) && !past {
			return fail(fmt.Errorf("%w: it closed on %s, and terminals would drop its blocks at once, %s being over: check the date, or add --past", ErrRefused, on, drop))
		}
	}
	err := c.store.change(ctx, func(ctx context.Context, tx *sql.Tx) error {
		if _, err := hold(ctx, tx, snapshotsIssued); err != nil {
			return err
		}
		if err := tx.QueryRowContext(ctx, "SELECT count(DISTINCT block_id) FROM blocks WHERE game = $1 AND emission = $2", game, emission).Scan(&n.Blocks); err != nil {
			return err
		}
		if n.Blocks == 0 {
			return fmt.Errorf("%w: no block of it is published (central block publish FILE.manifest)", ErrNotFound)
		}
		_, err := tx.ExecContext(ctx, "DELETE FROM emission_closings WHERE game = $1 AND emission = $2", game, emission)
		if err == nil && !on.IsZero() {
			_, err = tx.ExecContext(ctx, "INSERT INTO emission_closings(game, emission, closed, claim_days, entered) VALUES($1, $2, $3, $4, $5)", game, emission, n.Closed, n.ClaimDays, c.now())
		}
		if err != nil {
			return err
		}
		return c.relist(ctx, tx)
	})
	if err != nil {
		return fail(err)
	}
	c.opt.Log.Info("closing notice", "game", game, "emission", emission, "closed", n.Closed, "drop_after", n.DropAfter)
	return n, nil
}

func dropAfter(closed policy.Date, claimDays int) policy.Date {
	return policy.LastClaimDay(closed, claimDays).Add(dropGrace)
}

// SetRegion says where a terminal stands, "" for nowhere in particular. The terminal
// hears it with its next hello; the blocks of its packs are listed for the region.
func (c *Central) SetRegion(ctx context.Context, name, region string) error {
	if region != "" && !wire.ValidRegion(region) {
		return fmt.Errorf("region %.20q: %w: want 1 to 16 of a-z, 0-9 and -, as bzh", region, ErrRefused)
	}
	var newest int64
	err := c.store.change(ctx, func(ctx context.Context, tx *sql.Tx) error {
		if _, err := hold(ctx, tx, snapshotsIssued); err != nil {
			return err
		}
		done, err := tx.ExecContext(ctx, "UPDATE terminals SET region = $1 WHERE name = $2", region, name)
		if err != nil {
			return err
		}
		if n, err := done.RowsAffected(); err != nil || n == 0 {
			return errors.Join(fmt.Errorf("terminal %.64q: %w: central terminal list shows the names", name, ErrNotFound), err)
		}
		// Its blocks are counted anew: the region it leaves may have no other terminal with packs of them.
		for _, s := range []string{
			"DELETE FROM block_regions WHERE block_id IN (SELECT DISTINCT block_id FROM packs WHERE owner = $1)",
			`INSERT INTO block_regions(block_id, region) SELECT DISTINCT p.block_id, t.region FROM packs AS p JOIN terminals AS t ON t.name = p.owner
				WHERE t.region <> '' AND p.block_id IN (SELECT DISTINCT block_id FROM packs WHERE owner = $1)`,
		} {
			if _, err := tx.ExecContext(ctx, s, name); err != nil {
				return err
			}
		}
		if newest, err = c.tellArrived(ctx, tx, name, region); err != nil {
			return err
		}
		return c.relist(ctx, tx)
	})
	if err == nil {
		c.feed.added(newest)
	}
	return err
}

// reach notes that packs first to last of the blocks have come to a terminal, and so
// into its region.
func reach(ctx context.Context, tx *sql.Tx, blocks []Block, first, last uint32, terminal string) error {
	var region string
	if err := tx.QueryRowContext(ctx, "SELECT region FROM terminals WHERE name = $1", terminal).Scan(&region); err != nil || region == "" {
		return err
	}
	for _, b := range blocks {
		if b.FirstPack > last || b.LastPack < first {
			continue
		}
		if _, err := tx.ExecContext(ctx, "INSERT INTO block_regions(block_id, region) VALUES($1, $2) ON CONFLICT(block_id, region) DO NOTHING", b.ID[:], region); err != nil {
			return err
		}
	}
	return nil
}

// relist publishes a new snapshot when what it lists has changed, or when there is none yet.
func (c *Central) relist(ctx context.Context, tx *sql.Tx) error {
	last, err := hold(ctx, tx, snapshotsIssued)
	if err != nil {
		return err
	}
	next := wire.Snapshot{Version: last}
	if next.Blocks, err = listing(ctx, tx); err != nil {
		return err
	}
	if next.Policies, err = listedPolicies(ctx, tx); err != nil {
		return err
	}
	if next.Catalogue, next.Software, err = listedCatalogue(ctx, tx); err != nil {
		return err
	}
	var newest, withPieces, whole string
	err = tx.QueryRowContext(ctx, "SELECT note, with_pieces, whole FROM snapshots WHERE version = $1", last).Scan(&newest, &withPieces, &whole)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return c.addSnapshot(ctx, tx, next)
	case err != nil:
		return err
	}
	old, _, _ := strings.Cut(cmp.Or(whole, withPieces, newest), "\n\n")
	if was, err := wire.ParseSnapshot(old + "\n"); err == nil { // one of an earlier format is replaced
		next.Issued = was.Issued
		if next.Text() == was.Text() {
			return nil
		}
	}
	return c.addSnapshot(ctx, tx, next)
}

// listing is what the snapshot says of the published blocks, by game code and first pack.
func listing(ctx context.Context, q querier) ([]wire.Block, error) {
	blocks, err := listBlocks(ctx, q)
	if err != nil {
		return nil, err
	}
	first, err := firstPublished(ctx, q)
	if err != nil {
		return nil, err
	}
	regions, err := blockRegions(ctx, q)
	if err != nil {
		return nil, err
	}
	ends, err := endDates(ctx, q)
	if err != nil {
		return nil, err
	}
	var list []wire.Block
	for _, b := range blocks {
		end := ends[[2]string{b.Game, b.Emission}]
		list = append(list, wire.Block{SHA256: b.SHA256, Size: b.Size, GameCode: b.GameCode, Reader: b.MinReader, FirstPack: b.FirstPack, LastPack: b.LastPack,
			Published: policy.DateOf(first[b.ID]), Closed: end.closed, DropAfter: end.drop, Regions: regions[b.ID], Pieces: b.Pieces})
	}
	return list, nil
}

// firstPublished is when each block's first issue came: a reissue makes no block younger.
func firstPublished(ctx context.Context, q querier) (map[validate.BlockID]time.Time, error) {
	first := map[validate.BlockID]time.Time{}
	return first, eachRow(ctx, q, "SELECT block_id, min(published) FROM blocks GROUP BY block_id", func(row scanner) error {
		var raw []byte
		var text string
		if err := row.Scan(&raw, &text); err != nil {
			return err
		}
		id, err := blockID(raw)
		if err != nil {
			return err
		}
		first[id], err = wire.ParseTime(text)
		return err
	})
}

func blockRegions(ctx context.Context, q querier) (map[validate.BlockID][]string, error) {
	regions := map[validate.BlockID][]string{}
	return regions, eachRow(ctx, q, "SELECT block_id, region FROM block_regions ORDER BY block_id, region", func(row scanner) error {
		var raw []byte
		var region string
		if err := row.Scan(&raw, &region); err != nil {
			return err
		}
		id, err := blockID(raw)
		regions[id] = append(regions[id], region)
		return err
	})
}

// end is when an emission closed and until when its blocks are wanted.
type end struct{ closed, drop policy.Date }

// endDates are those of the closed emissions, by game and emission.
func endDates(ctx context.Context, q querier) (map[[2]string]end, error) {
	ends := map[[2]string]end{}
	return ends, eachRow(ctx, q, "SELECT game, emission, closed, claim_days FROM emission_closings", func(row scanner) error {
		var game, emission, closed string
		var days int
		if err := row.Scan(&game, &emission, &closed, &days); err != nil {
			return err
		}
		on, err := policy.ParseDate(closed)
		ends[[2]string{game, emission}] = end{on, dropAfter(on, days)}
		return err
	})
}

func eachRow(ctx context.Context, q querier, query string, use func(scanner) error, args ...any) error {
	rows, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := use(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// addSnapshot signs a snapshot, issued now, under the next version.
func (c *Central) addSnapshot(ctx context.Context, tx *sql.Tx, s wire.Snapshot) (err error) {
	if s.Version, err = take(ctx, tx, snapshotsIssued); err != nil {
		return err
	}
	s.Issued = c.opt.Now()
	plain, err := c.signSnapshot(s.WithoutPieces())
	if err != nil {
		return err
	}
	signed, err := c.signSnapshot(s.WithoutCatalogue())
	if err != nil {
		return err
	}
	whole, err := c.signSnapshot(s)
	if err != nil {
		return err
	}
	if whole == signed {
		whole = ""
	}
	if signed == plain {
		signed = ""
	}
	_, err = tx.ExecContext(ctx, "INSERT INTO snapshots(version, issued, note, with_pieces, whole) VALUES($1, $2, $3, $4, $5)", s.Version, wire.FormatTime(s.Issued), plain, signed, whole)
	return err
}

func (c *Central) signSnapshot(s wire.Snapshot) (string, error) {
	signed, err := c.keys.sign(s.Text())
	if err != nil {
		return "", fmt.Errorf("sign the snapshot: %w", err)
	}
	if len(signed) > wire.MaxAnswer {
		return "", fmt.Errorf("%w: the snapshot would have %d bytes, at most %d", ErrRefused, len(signed), wire.MaxAnswer)
	}
	return signed, nil
}

// Snapshot is the newest snapshot, a signed note over wire.Snapshot's text, with the
// names of descriptors where there are any.
func (c *Central) Snapshot(ctx context.Context) (version int64, signed string, err error) {
	version, texts, err := c.snapshotTexts(ctx)
	return version, texts[1], err
}

// snapshotTexts are the texts of the newest snapshot, version 1 to 3; where one would name
// nothing that the one before does not, it is that one.
func (c *Central) snapshotTexts(ctx context.Context) (version int64, texts [wire.SnapshotTexts]string, err error) {
	err = c.store.reader().QueryRowContext(ctx, "SELECT version, note, with_pieces, whole FROM snapshots ORDER BY version DESC LIMIT 1").Scan(&version, &texts[0], &texts[1], &texts[2])
	for i := range texts {
		switch {
		case err != nil:
		case texts[i] == "" && i > 0:
			texts[i] = texts[i-1]
		default:
			texts[i], err = c.keys.signedNow(texts[i])
		}
	}
	return version, texts, err
}
