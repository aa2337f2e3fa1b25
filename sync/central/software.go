package central

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"grattoir/sync/wire"
)

// Bundle is an update as whoever publishes it has read and verified it. A version may have
// one for each board.
type Bundle struct {
	Board   string `json:"board"`
	Version string `json:"version"`
	Number  int64  `json:"number"` // rises from version to version
	Floor   int64  `json:"floor"`
	SHA256  string `json:"sha256"`
	Size    int64  `json:"size"`
	Notes   string `json:"notes"` // for operators
	// Manifest is the signed note that terminals believe.
	Manifest string `json:"-"`
}

// RolloutState is where an update stands at central.
type RolloutState string

const (
	UpdatePublished RolloutState = "published" // offered to nobody
	UpdateRolling   RolloutState = "rolling"
	UpdateHalted    RolloutState = "halted" // offered to nobody any more; who has not restarted gives it up
)

// Update is an update at central.
type Update struct {
	Bundle
	State     RolloutState `json:"state"`
	Why       string       `json:"why,omitempty"` // of the last halt
	MaxFailed int64        `json:"max_failed"`
	Operator  string       `json:"operator"`
	Published time.Time    `json:"published"`
}

func (c *Central) bundlePath(sum string) string {
	return filepath.Join(c.opt.Dir, "bundles", sum+".raucb")
}

const maxNotes = 2000 // bytes

// PublishUpdate takes a bundle's file and names it in the snapshot. It is offered to
// nobody before Roll. The same again changes nothing. The errors include ErrRefused.
func (c *Central) PublishUpdate(ctx context.Context, b Bundle, file io.Reader, operator string) error {
	fail := func(err error) error { return fmt.Errorf("publish %.40q for %.40q: %w", b.Version, b.Board, err) }
	r := wire.Release{Name: b.Board, Version: b.Version, SHA256: b.SHA256, Size: b.Size}
	err := r.Check()
	switch {
	case err != nil:
		return fail(fmt.Errorf("%w: %w", ErrRefused, err))
	case b.Size > wire.MaxBundle || len(b.Manifest) > wire.MaxUpdate || b.Number < 1:
		return fail(fmt.Errorf("%w: number %d, a bundle of %d bytes, a manifest of %d", ErrRefused, b.Number, b.Size, len(b.Manifest)))
	case len(b.Notes) > maxNotes || !utf8.ValidString(b.Notes) || strings.Contains(b.Notes, "\x00"):
		return fail(fmt.Errorf("%w: the notes are a text of at most %d bytes", ErrRefused, maxNotes))
	}
	if err := named(operator); err != nil {
		return fail(err)
	}
	if err := c.keepBundle(b, file); err != nil {
		return fail(err)
	}
	if _, err := c.Announce(ctx, r, operator); err != nil {
		return fail(err)
	}
	err = c.store.change(ctx, func(ctx context.Context, tx *sql.Tx) error {
		var above int64
		err := tx.QueryRowContext(ctx, "SELECT count(*) FROM updates WHERE board = $1 AND version <> $2 AND number >= $3", b.Board, b.Version, b.Number).Scan(&above)
		if err == nil && above > 0 {
			err = fmt.Errorf("%w: number %d is not above those of %d other versions for this board (central software list)", ErrRefused, b.Number, above)
		}
		if err != nil {
			return err
		}
		done, err := tx.ExecContext(ctx, `INSERT INTO updates(board, version, number, floor, sha256, size, manifest, notes, operator, published, state) VALUES($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
			ON CONFLICT(board, version) DO UPDATE SET notes = excluded.notes WHERE updates.sha256 = excluded.sha256 AND updates.number = excluded.number`,
			b.Board, b.Version, b.Number, b.Floor, b.SHA256, b.Size, b.Manifest, b.Notes, operator, c.now(), UpdatePublished)
		if err := changedOne(done, err, BecauseReleaseOther, "this version was published with other bytes or another number"); err != nil {
			return err
		}
		return c.auditLine(ctx, tx, "software-publish", operator, fmt.Sprintf("%s %s, number %d, floor %d, SHA-256 %s", b.Board, b.Version, b.Number, b.Floor, b.SHA256))
	})
	if err != nil {
		return fail(err)
	}
	return nil
}

// named refuses an act of nobody.
func named(operator string) error {
	if operator == "" || len(operator) > 64 {
		return fmt.Errorf("%w: an act needs the name of its operator, at most 64 bytes", ErrRefused)
	}
	return nil
}

// keepBundle copies the file into central's folder, whole or not at all.
func (c *Central) keepBundle(b Bundle, file io.Reader) (err error) {
	to := c.bundlePath(b.SHA256)
	if sum, err := hashOf(to); err == nil && sum == b.SHA256 {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	out, err := os.CreateTemp(filepath.Dir(to), ".new-*")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, removeIfThere(out.Name())) }()
	h := sha256.New()
	n, err := io.Copy(io.MultiWriter(out, h), io.LimitReader(file, wire.MaxBundle+1))
	if err := errors.Join(err, out.Chmod(0o644), out.Sync(), out.Close()); err != nil {
		return err
	}
	if sum := hex.EncodeToString(h.Sum(nil)); sum != b.SHA256 || n != b.Size {
		return fmt.Errorf("%w: the file has %d bytes and SHA-256 %.8s, its manifest says %d and %.8s", ErrRefused, n, sum, b.Size, b.SHA256)
	}
	return moveInto(out.Name(), to)
}

// Rollout says whom a version is offered to, beside those that it is offered to already.
type Rollout struct {
	Canaries  int      `json:"canaries,omitempty"` // so many terminals in all, which the version's name chooses
	Percent   int      `json:"percent,omitempty"`  // of all terminals; those of a lower number are among those of a higher
	Region    string   `json:"region,omitempty"`
	Terminals []string `json:"terminals,omitempty"`
	// MaxFailed is on how many terminals it may fail or be rolled back before it is halted.
	MaxFailed int64 `json:"max_failed"`
}

func (r Rollout) check() error {
	ways := 0
	for _, given := range []bool{r.Canaries > 0, r.Percent > 0, r.Region != "", len(r.Terminals) > 0} {
		if given {
			ways++
		}
	}
	switch {
	case ways != 1:
		return fmt.Errorf("%w: say one of canaries, percent, region and terminals", ErrRefused)
	case r.Percent > 100 || r.Canaries < 0 || r.Percent < 0 || r.MaxFailed < 0 || r.Canaries > 1000 || len(r.Terminals) > 1000:
		return fmt.Errorf("%w: %d percent, %d canaries, %d terminals, %d failed", ErrRefused, r.Percent, r.Canaries, len(r.Terminals), r.MaxFailed)
	case r.Region != "" && !wire.ValidRegion(r.Region):
		return fmt.Errorf("%w: region %.20q", ErrRefused, r.Region)
	}
	return nil
}

// Roll offers a published version to more terminals, from their next hello on. The errors
// include ErrNotFound and ErrRefused: one that was halted is resumed first.
func (c *Central) Roll(ctx context.Context, version string, r Rollout, operator string) error {
	err := errors.Join(r.check(), named(operator))
	if err == nil {
		err = c.store.change(ctx, func(ctx context.Context, tx *sql.Tx) error { return c.roll(ctx, tx, version, r, operator) })
	}
	if err != nil {
		return fmt.Errorf("roll %.40q: %w", version, err)
	}
	return nil
}

func (c *Central) roll(ctx context.Context, tx *sql.Tx, version string, r Rollout, operator string) error {
	list, err := updatesOf(ctx, tx, version)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(list, func(u Update) bool { return u.State == UpdateHalted }) {
		return fmt.Errorf("%w: it is halted (%s): central software resume %s first", ErrRefused, list[0].Why, version)
	}
	if r.Canaries > 0 {
		if r.Terminals, err = canaries(ctx, tx, list, r.Canaries); err != nil {
			return err
		}
	}
	kind := "named"
	if r.Canaries > 0 {
		kind = "canary"
	}
	for _, terminal := range r.Terminals {
		var n int
		if err := tx.QueryRowContext(ctx, "SELECT count(*) FROM terminals WHERE name = $1", terminal).Scan(&n); err != nil || n == 0 {
			return errors.Join(fmt.Errorf("terminal %.64q: %w: central terminal list shows the names", terminal, ErrNotFound), err)
		}
		if _, err := tx.ExecContext(ctx, "INSERT INTO rollout_terminals(version, terminal, kind) VALUES($1, $2, $3) ON CONFLICT(version, terminal) DO NOTHING", version, terminal, kind); err != nil {
			return err
		}
	}
	rule, value := "", ""
	switch {
	case r.Percent > 0:
		rule, value = "percent", fmt.Sprint(r.Percent)
	case r.Region != "":
		rule, value = "region", r.Region
	}
	if rule != "" {
		if _, err := tx.ExecContext(ctx, "INSERT INTO rollouts(version, kind, value, operator, began) VALUES($1, $2, $3, $4, $5) ON CONFLICT(version, kind, value) DO NOTHING", version, rule, value, operator, c.now()); err != nil {
			return err
		}
	}
	if _, err := tx.ExecContext(ctx, "UPDATE updates SET state = $1, max_failed = $2 WHERE version = $3", UpdateRolling, r.MaxFailed, version); err != nil {
		return err
	}
	what := strings.TrimSpace(fmt.Sprintf("%s %s %s %s", rule, value, kind, strings.Join(r.Terminals, " ")))
	return c.auditLine(ctx, tx, "software-roll", operator, fmt.Sprintf("%s to %s, halted after %d failures", version, what, r.MaxFailed))
}

// canaries are the terminals that a version's name chooses among those that could take
// it and were heard within a day, so many in all.
func canaries(ctx context.Context, tx *sql.Tx, list []Update, want int) ([]string, error) {
	type candidate struct {
		name string
		at   uint32
	}
	var all []candidate
	for _, u := range list {
		err := eachRow(ctx, tx, `SELECT s.terminal FROM terminal_software AS s JOIN terminals AS t ON t.name = s.terminal
			WHERE s.board = $1 AND s.number < $2 AND t.state = $3`, func(row scanner) error {
			var x candidate
			err := row.Scan(&x.name)
			x.at = lot32(u.Version, x.name)
			all = append(all, x)
			return err
		}, u.Board, u.Number, Enrolled)
		if err != nil {
			return nil, err
		}
	}
	slices.SortFunc(all, func(a, b candidate) int { return int(int64(a.at) - int64(b.at)) })
	if len(all) < want {
		return nil, fmt.Errorf("%w: %d terminals have told that they could take it, %d canaries are wanted", ErrRefused, len(all), want)
	}
	var names []string
	for _, x := range all[:want] {
		names = append(names, x.name)
	}
	return names, nil
}

// lot32 is a terminal's place among all for a version: another one for each version.
func lot32(version, terminal string) uint32 {
	sum := sha256.Sum256([]byte(version + "\x00" + terminal))
	return binary.BigEndian.Uint32(sum[:])
}

// HaltUpdate offers a version to nobody any more. Who has not restarted into it gives it up.
func (c *Central) HaltUpdate(ctx context.Context, version, why, operator string) error {
	return c.turn(ctx, "halt", version, why, operator, UpdateHalted)
}

// ResumeUpdate offers a halted version again, to whom it was offered. Failures until now
// are forgiven: one more than so many halts it again.
func (c *Central) ResumeUpdate(ctx context.Context, version, why, operator string) error {
	return c.turn(ctx, "resume", version, why, operator, UpdateRolling)
}

func (c *Central) turn(ctx context.Context, act, version, why, operator string, to RolloutState) error {
	err := named(operator)
	if err == nil && (why == "" || len(why) > wire.MaxReason || !utf8.ValidString(why)) {
		err = fmt.Errorf("%w: it needs a reason of at most %d bytes", ErrRefused, wire.MaxReason)
	}
	if err == nil {
		err = c.store.change(ctx, func(ctx context.Context, tx *sql.Tx) error {
			list, err := updatesOf(ctx, tx, version)
			if err != nil {
				return err
			}
			if list[0].State == to || to == UpdateRolling && list[0].State != UpdateHalted {
				return fmt.Errorf("%w: it is %s", ErrRefused, list[0].State)
			}
			if to == UpdateHalted {
				return c.halt(ctx, tx, version, why, operator)
			}
			failed, err := failedOf(ctx, tx, version)
			if err != nil {
				return err
			}
			if _, err := tx.ExecContext(ctx, "UPDATE updates SET state = $1, max_failed = $2 WHERE version = $3", to, max(failed, list[0].MaxFailed), version); err != nil {
				return err
			}
			return c.auditLine(ctx, tx, "software-resume", operator, fmt.Sprintf("%s with %d failures: %s", version, failed, why))
		})
	}
	if err != nil {
		return fmt.Errorf("%s %.40q: %w", act, version, err)
	}
	return nil
}

func (c *Central) halt(ctx context.Context, tx *sql.Tx, version, why, operator string) error {
	if _, err := tx.ExecContext(ctx, "UPDATE updates SET state = $1, why = $2 WHERE version = $3", UpdateHalted, why, version); err != nil {
		return err
	}
	return c.auditLine(ctx, tx, "software-halt", operator, version+": "+why)
}

func failedOf(ctx context.Context, q querier, version string) (n int64, err error) {
	err = q.QueryRowContext(ctx, "SELECT count(*) FROM terminal_updates WHERE version = $1 AND step IN ($2, $3)", version, wire.UpdateRolledBack, wire.UpdateFailed).Scan(&n)
	return n, err
}

const updateColumns = "board, version, number, floor, sha256, size, manifest, notes, operator, published, state, max_failed, why"

func scanUpdate(row scanner) (u Update, err error) {
	var published string
	err = row.Scan(&u.Board, &u.Version, &u.Number, &u.Floor, &u.SHA256, &u.Size, &u.Manifest, &u.Notes, &u.Operator, &published, &u.State, &u.MaxFailed, &u.Why)
	if err == nil {
		u.Published, err = wire.ParseTime(published)
	}
	return u, err
}

// updatesOf are a version's bundles, by board; ErrNotFound for none.
func updatesOf(ctx context.Context, q querier, version string) (list []Update, err error) {
	err = eachRow(ctx, q, "SELECT "+updateColumns+" FROM updates WHERE version = $1 ORDER BY board", func(row scanner) error {
		u, err := scanUpdate(row)
		list = append(list, u)
		return err
	}, version)
	if err == nil && len(list) == 0 {
		err = fmt.Errorf("%w: no such version is published (central software list)", ErrNotFound)
	}
	return list, err
}

// Updates lists what was published, by board, the newest first.
func (c *Central) Updates(ctx context.Context) ([]Update, error) {
	list := []Update{}
	err := eachRow(ctx, c.store.reader(), "SELECT "+updateColumns+" FROM updates ORDER BY board, number DESC", func(row scanner) error {
		u, err := scanUpdate(row)
		list = append(list, u)
		return err
	})
	return list, err
}

// tellSoftware keeps what a hello tells of a terminal's software, halts a version that
// fails on too many, and gives what the terminal is to install, nil for nothing.
func (c *Central) tellSoftware(ctx context.Context, tx *sql.Tx, terminal string, s *wire.Software) (*wire.Offer, error) {
	if s == nil {
		return nil, nil
	}
	now := c.now()
	_, err := tx.ExecContext(ctx, `INSERT INTO terminal_software(terminal, board, version, number, floor, told) VALUES($1, $2, $3, $4, $5, $6)
		ON CONFLICT(terminal) DO UPDATE SET board = excluded.board, version = excluded.version, number = excluded.number, floor = excluded.floor, told = excluded.told
		WHERE terminal_software.board <> excluded.board OR terminal_software.number <> excluded.number OR terminal_software.version <> excluded.version OR terminal_software.floor <> excluded.floor`,
		terminal, s.Board, s.Version, s.Number, s.Floor, now)
	if err == nil {
		err = c.keepStep(ctx, tx, terminal, s, now)
	}
	if err != nil {
		return nil, err
	}
	return c.offer(ctx, tx, terminal, s, now)
}

// keepStep keeps how far a terminal has come with an update that central has published.
func (c *Central) keepStep(ctx context.Context, tx *sql.Tx, terminal string, s *wire.Software, now string) error {
	u := s.Update
	if u == nil {
		return nil
	}
	var version string
	var state RolloutState
	var limit int64
	err := tx.QueryRowContext(ctx, "SELECT version, state, max_failed FROM updates WHERE board = $1 AND version = $2 AND sha256 = $3", s.Board, u.Version, u.SHA256).Scan(&version, &state, &limit)
	if errors.Is(err, sql.ErrNoRows) {
		return nil // it came by hand, from elsewhere
	}
	if err != nil {
		return err
	}
	done, err := tx.ExecContext(ctx, `INSERT INTO terminal_updates(version, terminal, offered, step, reason, changed) VALUES($1, $2, '', $3, $4, $5)
		ON CONFLICT(version, terminal) DO UPDATE SET step = excluded.step, reason = excluded.reason, changed = excluded.changed
		WHERE terminal_updates.step <> excluded.step OR terminal_updates.reason <> excluded.reason`, version, terminal, u.Step, u.Reason, now)
	if err != nil {
		return err
	}
	changed, err := done.RowsAffected()
	if err != nil || changed == 0 || state != UpdateRolling || u.Step != wire.UpdateRolledBack && u.Step != wire.UpdateFailed {
		return err
	}
	failed, err := failedOf(ctx, tx, version)
	if err != nil || failed <= limit {
		return err
	}
	why := fmt.Sprintf("%s on %d terminals, the last %s: %.100s", u.Step, failed, terminal, u.Reason)
	c.opt.Log.Error("an update is halted by itself", "version", version, "failed", failed, "limit", limit, "terminal", terminal)
	return c.halt(ctx, tx, version, why, "system")
}

// offer is the newest version that a terminal is to install.
func (c *Central) offer(ctx context.Context, tx *sql.Tx, terminal string, s *wire.Software, now string) (*wire.Offer, error) {
	var list []Update
	err := eachRow(ctx, tx, `SELECT version FROM updates WHERE board = $1 AND number > $2 AND state = $3 ORDER BY number DESC`, func(row scanner) error {
		var u Update
		err := row.Scan(&u.Version)
		list = append(list, u)
		return err
	}, s.Board, s.Number, UpdateRolling)
	if err != nil {
		return nil, err
	}
	for _, u := range list {
		wanted, err := c.wants(ctx, tx, u.Version, s.Board, terminal)
		if err != nil {
			return nil, err
		}
		if !wanted {
			continue
		}
		_, err = tx.ExecContext(ctx, `INSERT INTO terminal_updates(version, terminal, offered, step, reason, changed) VALUES($1, $2, $3, '', '', $3)
			ON CONFLICT(version, terminal) DO UPDATE SET offered = excluded.offered WHERE terminal_updates.offered = ''`, u.Version, terminal, now)
		return &wire.Offer{Name: s.Board, Version: u.Version}, err
	}
	return nil, nil
}

// wants tells whether a version that is rolling is this terminal's turn. One on which it
// failed is not offered to it again.
func (c *Central) wants(ctx context.Context, tx *sql.Tx, version, board, terminal string) (bool, error) {
	var listed, failed, named int
	var region string
	err := tx.QueryRowContext(ctx, `SELECT (SELECT count(*) FROM releases WHERE name = $1 AND version = $2 AND withdrawn = ''),
		(SELECT count(*) FROM terminal_updates WHERE version = $2 AND terminal = $3 AND step IN ($4, $5, $6)),
		(SELECT count(*) FROM rollout_terminals WHERE version = $2 AND terminal = $3), region FROM terminals WHERE name = $3`,
		board, version, terminal, wire.UpdateRolledBack, wire.UpdateFailed, wire.UpdateRefused).Scan(&listed, &failed, &named, &region)
	if err != nil || listed == 0 || failed > 0 {
		return false, err
	}
	wanted := named > 0
	err = eachRow(ctx, tx, "SELECT kind, value FROM rollouts WHERE version = $1", func(row scanner) error {
		var kind, value string
		if err := row.Scan(&kind, &value); err != nil {
			return err
		}
		var percent uint32
		if kind == "percent" {
			if _, err := fmt.Sscan(value, &percent); err != nil {
				return err
			}
		}
		wanted = wanted || kind == "percent" && lot32(version, terminal)%100 < percent || kind == "region" && value == region
		return nil
	}, version)
	return wanted, err
}

// States of a terminal with regard to a version, beside the steps that terminals tell. All
// of them are a partition of the terminals.
const (
	NotTold      = "not-told"      // it tells nothing of its software
	OtherBoard   = "other-board"   // the version has no bundle for it
	RunsNewer    = "runs-newer"    // a higher number
	NeverOffered = "never-offered" //
	Offered      = "offered"       // and not heard of since
)

// SoftwareStates are all states, in the order in which reports show them.
func SoftwareStates() []string {
	return []string{NeverOffered, Offered, string(wire.UpdateDownloading), string(wire.UpdateInstalling), string(wire.UpdateWaiting), string(wire.UpdateTrying), string(wire.UpdateGood),
		string(wire.UpdateRolledBack), string(wire.UpdateFailed), string(wire.UpdateRefused), string(wire.UpdateWithdrawn), RunsNewer, OtherBoard, NotTold}
}

// TerminalUpdate is one terminal with regard to a version.
type TerminalUpdate struct {
	Terminal string `json:"terminal"`
	State    string `json:"state"`
	Reason   string `json:"reason,omitempty"`
	Runs     string `json:"runs"` // version, "" where it is not known
	Canary   bool   `json:"canary"`
	Changed  string `json:"changed,omitempty"`
}

// Progress of a version: its bundles, how many terminals are in each state, and each of them.
type Progress struct {
	Updates   []Update         `json:"updates"`
	Counts    map[string]int   `json:"counts"` // by state; they add up to all terminals
	Terminals []TerminalUpdate `json:"terminals"`
}

// UpdateProgress tells how far a version has come. The errors include ErrNotFound.
func (c *Central) UpdateProgress(ctx context.Context, version string) (p Progress, err error) {
	if p.Updates, err = updatesOf(ctx, c.store.reader(), version); err != nil {
		return p, fmt.Errorf("software %.40q: %w", version, err)
	}
	p.Counts, p.Terminals = map[string]int{}, []TerminalUpdate{}
	for _, s := range SoftwareStates() {
		p.Counts[s] = 0
	}
	err = eachRow(ctx, c.store.reader(), `SELECT t.name, coalesce(s.board, ''), coalesce(s.version, ''), coalesce(s.number, 0), coalesce(u.step, '-'), coalesce(u.reason, ''), coalesce(u.changed, ''), coalesce(r.kind, '')
		FROM terminals AS t LEFT JOIN terminal_software AS s ON s.terminal = t.name LEFT JOIN terminal_updates AS u ON u.terminal = t.name AND u.version = $1
		LEFT JOIN rollout_terminals AS r ON r.terminal = t.name AND r.version = $1 ORDER BY t.name`, func(row scanner) error {
		var x TerminalUpdate
		var board, step, kind string
		var number int64
		if err := row.Scan(&x.Terminal, &board, &x.Runs, &number, &step, &x.Reason, &x.Changed, &kind); err != nil {
			return err
		}
		x.Canary = kind == "canary"
		x.State = softwareState(p.Updates, board, number, step)
		p.Counts[x.State]++
		p.Terminals = append(p.Terminals, x)
		return nil
	}, version)
	return p, err
}

// softwareState is the one state of a terminal; step is "-" where it was never offered.
func softwareState(list []Update, board string, number int64, step string) string {
	at := slices.IndexFunc(list, func(u Update) bool { return u.Board == board })
	switch {
	case board == "":
		return NotTold
	case at < 0:
		return OtherBoard
	case number > list[at].Number:
		return RunsNewer
	case number == list[at].Number && step != string(wire.UpdateTrying): // also where a card was written with it
		return string(wire.UpdateGood)
	case step == "-":
		return NeverOffered
	case slices.Contains(SoftwareStates(), step):
		return step
	}
	return Offered
}

// serveUpdate gives an update's signed manifest by its bundle's hash.
func (c *Central) serveUpdate(w http.ResponseWriter, r *http.Request, _ caller) {
	c.serveText(w, r, "update", "SELECT manifest FROM updates WHERE sha256 = $1")
}

// serveBundle gives a bundle, or parts of it.
func (c *Central) serveBundle(w http.ResponseWriter, r *http.Request, _ caller) {
	sum := r.PathValue("sha256")
	if !isHash(sum) {
		c.fail(w, r, wireError(wire.KindBadRequest, "want a bundle's SHA-256 in 64 lower-case hexadecimal digits"))
		return
	}
	var n int
	err := c.store.reader().QueryRowContext(r.Context(), "SELECT count(*) FROM updates WHERE sha256 = $1", sum).Scan(&n)
	if err == nil && n == 0 {
		err = wireError(wire.KindNotFound, "no bundle %s is published", sum)
	}
	var f *os.File
	if err == nil {
		if f, err = os.Open(c.bundlePath(sum)); errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("bundle %s is published and its file is gone: publish it again: %w", sum, err)
		}
	}
	if err != nil {
		c.fail(w, r, err)
		return
	}
	defer f.Close()
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("ETag", `"`+sum+`"`)
	http.ServeContent(w, r, "", time.Time{}, revocable{f, r.Context()})
}
