// Package central is the server's side of the link. It enrols terminals, keeps what
// they upload, decides which claim of a ticket is the accepted one, and publishes
// blocks, packs and payments to them. It owns everything in its folder: the keys, the
// block files and the database, whose tables schema/ explains. Several processes may have
// the folder open, the server and the operations' tool beside it. It prints no report
// and serves no page. Start at Open, then API; sync/wire/PROTOCOL.md is the contract.
package central

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"grattoir/sync/ledger/people"
	"grattoir/sync/wire"
	"grattoir/validate"
	"grattoir/validate/manifest"
)

// Options open central. Dir is needed; the rest has defaults.
type Options struct {
	Dir string // folder of keys, blocks and the SQLite file, made when missing
	// Database is a SQLite file, or a PostgreSQL as postgres://user@host/name. It is noted
	// in the folder, because keys belong to the tables they signed for, and "" is the one
	// noted, or else central.db in the folder. Another than the noted one is refused.
	Database string
	Name     string // in the CA's certificate and the note key, at first start only; "grattoir-central"
	// Hosts are the names and addresses of the server's certificate. Without any, the
	// certificate that exists stays, and a first one is for localhost and 127.0.0.1.
	Hosts []string
	// AllowanceClaims and AllowanceMinor travel in every acknowledgement and bound what a
	// terminal may pay above it; 0 is no bound.
	AllowanceClaims int64
	AllowanceMinor  int64
	// BookedRiskMinor is up to which amount central credits a payment that a terminal made
	// at a booked risk; 0 credits none.
	BookedRiskMinor int64
	// Sales says in which games a block's packs are put on sale no more once its last top prize
	// is paid.
	Sales SalesRule
	// Width is how many requests of one kind are worked on at one time, 0 for 64; the others
	// wait, or are told when to come back.
	Width int
	// PasswordCost is that of users' passwords; the zero value is 64 MiB and 3 passes.
	PasswordCost people.Cost
	Now          func() time.Time // time.Now
	Rand         io.Reader        // of codes and certificate numbers, safe for concurrent use; crypto/rand
	Log          *slog.Logger     // nothing is logged without one
}

var (
	// ErrNotFound means that central knows no such terminal, block or pack.
	ErrNotFound = errors.New("not known to central")
	// ErrRefused means an act that a rule forbids in the present state.
	ErrRefused = errors.New("refused")
)

// Central is the open server's side. It is safe for concurrent use.
type Central struct {
	opt   Options
	keys  keys
	store store
	id    string // random, the same in the folder and in the database

	blocksMu sync.Mutex
	blocks   map[validate.BlockID]*openBlock
	replaced []*manifest.Block // by a higher serial

	feed     *herald
	visitors visitors
	lanes    *lanes
	guesses  *guesses
	meters   meters
	holds    *bell // rung for a pack whose owner has answered
	stop     context.CancelFunc
	done     sync.WaitGroup

	// patience is how long a claim waits for a pack's owner.
	patience time.Duration
	paris    *time.Location

	touchedMu sync.Mutex
	touched   map[packKey]bool // packs with new claims, see SettleDue

	// committed is called between an upload's commit and its answer. Tests stop there.
	committed func()
}

type openBlock struct {
	serial int64
	*manifest.Block
}

// Open opens the folder. The first time it makes the private CA, the server's
// certificate, the key that signs snapshots and acknowledgements, the claim key pair
// and the database. It refuses a database of a newer program. Close it at the end.
func Open(ctx context.Context, opt Options) (*Central, error) {
	if opt.Dir == "" {
		return nil, errors.New("central: the folder is missing")
	}
	c, err := open(ctx, withDefaults(opt))
	if err != nil {
		return nil, fmt.Errorf("central %s: %w", opt.Dir, err)
	}
	return c, nil
}

func withDefaults(opt Options) Options {
	if opt.Name == "" {
		opt.Name = "grattoir-central"
	}
	if opt.Width < 1 {
		opt.Width = workAtOnce
	}
	if opt.PasswordCost == (people.Cost{}) {
		opt.PasswordCost = shippedCost()
	}
	if opt.Now == nil {
		opt.Now = time.Now
	}
	if opt.Rand == nil {
		opt.Rand = rand.Reader
	}
	if opt.Log == nil {
		opt.Log = slog.New(slog.DiscardHandler)
	}
	return opt
}

func open(ctx context.Context, opt Options) (_ *Central, err error) {
	for _, dir := range []string{opt.Dir, filepath.Join(opt.Dir, "keys"), filepath.Join(opt.Dir, "blocks"), filepath.Join(opt.Dir, "peppers"), filepath.Join(opt.Dir, "seal-keys")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, err
		}
	}
	// Two processes that start together must not make two CAs.
	unlock, err := lockSetup(filepath.Join(opt.Dir, "setup.lock"))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	var isNew bool
	if opt.Database, isNew, err = findDatabase(opt); err != nil {
		return nil, err
	}
	c := &Central{opt: opt, blocks: map[validate.BlockID]*openBlock{}, lanes: newLanes(opt.Width), guesses: newGuesses(), meters: newMeters(), committed: func() {}, patience: claimWait}
	if c.paris, err = time.LoadLocation("Europe/Paris"); err != nil {
		return nil, err
	}
	if c.keys, err = loadKeys(opt); err != nil {
		return nil, err
	}
	if err := c.keys.loadBeside(c); err != nil {
		return nil, err
	}
	if c.store, err = openStore(ctx, opt); err != nil {
		return nil, err
	}
	err = c.recognise(ctx)
	if err == nil && isNew {
		err = writeWhole(notePath(opt), []byte(opt.Database+"\n"), 0o600)
	}
	if err == nil {
		err = c.describeAll(ctx)
	}
	if err == nil {
		err = c.tiersOfAll(ctx)
	}
	if err == nil {
		err = c.countOnce(ctx)
	}
	if err == nil {
		err = c.store.change(ctx, c.relist)
	}
	if err != nil {
		return nil, errors.Join(err, c.store.close())
	}
	newest, err := c.newestFeed(ctx)
	if err != nil {
		return nil, errors.Join(err, c.store.close())
	}
	c.feed, c.holds = newHerald(newest), newBell()
	if err := c.heedRevocations(ctx); err != nil {
		return nil, errors.Join(err, c.store.close())
	}
	watching, stop := context.WithCancel(context.WithoutCancel(ctx))
	c.stop = stop
	c.done.Go(func() { c.watchFeed(watching) })
	return c, nil
}

func lockSetup(path string) (unlock func() error, err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil { // held for a fraction of a second
		return nil, errors.Join(err, f.Close())
	}
	return f.Close, nil
}

// Close ends long polls and releases the files. Requests still under way fail.
func (c *Central) Close() error {
	c.stop()
	c.done.Wait()
	c.EndPolls()
	errs := []error{c.store.close()}
	c.blocksMu.Lock()
	defer c.blocksMu.Unlock()
	for _, b := range c.blocks {
		errs = append(errs, b.Close())
	}
	for _, b := range c.replaced {
		errs = append(errs, b.Close())
	}
	return errors.Join(errs...)
}

// Reader is the database for reports: read-only connections over the tables that
// schema/ explains. Each query sees one consistent state; a report of several queries
// takes a transaction.
func (c *Central) Reader() *sql.DB { return c.store.reader() }

// PublicKey is the note key that snapshots and acknowledgements verify under.
func (c *Central) PublicKey() string { return c.keys.notePublic }

// now is central's clock as messages carry it.
func (c *Central) now() string { return wire.FormatTime(c.opt.Now()) }
